// SPDX-License-Identifier: Apache-2.0
//
// Copies data to and from a device by each kind of call, half of it in another thread, and prints
// how many bytes these were: "copied TO FROM".
#include <thread>

#include "cl_test.h"

static constexpr size_t kWidth = 512, kHeight = 256, kBytes = kWidth * kHeight;

static size_t g_to = 0, g_from = 0;

static void copy_buffers(const Cl &cl) {
  std::vector<char> host(kBytes, 3);
  cl_mem m = cl.buffer(kBytes, CL_MEM_COPY_HOST_PTR, host.data());
  CL(clEnqueueWriteBuffer(cl.queue, m, CL_TRUE, 0, kBytes, host.data(), 0, nullptr, nullptr));
  CL(clEnqueueWriteBuffer(cl.queue, m, CL_FALSE, 16, 1000, host.data(), 0, nullptr, nullptr));
  CL(clEnqueueReadBuffer(cl.queue, m, CL_TRUE, 0, kBytes, host.data(), 0, nullptr, nullptr));
  g_to += 2 * kBytes + 1000;
  g_from += kBytes;
  const size_t origin[3] = {0, 0, 0}, region[3] = {100, 20, 1};
  CL(clEnqueueWriteBufferRect(cl.queue, m, CL_TRUE, origin, origin, region, kWidth, 0, kWidth, 0,
                              host.data(), 0, nullptr, nullptr));
  CL(clEnqueueReadBufferRect(cl.queue, m, CL_TRUE, origin, origin, region, kWidth, 0, kWidth, 0,
                             host.data(), 0, nullptr, nullptr));
  g_to += 100 * 20;
  g_from += 100 * 20;
  // Not between host and device.
  CL(clEnqueueCopyBuffer(cl.queue, m, m, 0, kBytes / 2, kBytes / 2, 0, nullptr, nullptr));
  CL(clFinish(cl.queue));
}

static void map_buffer(const Cl &cl) {
  cl_int status;
  cl_mem m = cl.buffer(6000);  // so small that its pages are not shared, and a map copies
  void *p = clEnqueueMapBuffer(cl.queue, m, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, 5000, 0,
                               nullptr, nullptr, &status);
  CL(status);
  CL(clEnqueueUnmapMemObject(cl.queue, m, p, 0, nullptr, nullptr));
  p = clEnqueueMapBuffer(cl.queue, m, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, 3000, 0, nullptr,
                         nullptr, &status);
  CL(status);
  std::memset(p, 1, 3000);
  CL(clEnqueueUnmapMemObject(cl.queue, m, p, 0, nullptr, nullptr));
  CL(clFinish(cl.queue));
  g_to += 8000;
  g_from += 5000;
}

static void copy_image(const Cl &cl) {
  cl_int status;
  const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
  cl_image_desc shape{};
  shape.image_type = CL_MEM_OBJECT_IMAGE2D;
  shape.image_width = 64;
  shape.image_height = 32;
  cl_mem m = clCreateImage(cl.context, CL_MEM_READ_WRITE, &format, &shape, nullptr, &status);
  CL(status);
  const size_t origin[3] = {0, 0, 0}, region[3] = {64, 32, 1};
  std::vector<char> host(64 * 32 * 4, 9);
  CL(clEnqueueWriteImage(cl.queue, m, CL_TRUE, origin, region, 0, 0, host.data(), 0, nullptr,
                         nullptr));
  CL(clEnqueueReadImage(cl.queue, m, CL_TRUE, origin, region, 0, 0, host.data(), 0, nullptr,
                        nullptr));
  g_to += host.size();
  g_from += host.size();
}

int main() {
  Cl cl;
  std::thread(copy_buffers, std::cref(cl)).join();
  map_buffer(cl);
  copy_image(cl);
  std::printf("copied %zu %zu\n", g_to, g_from);
  return finish();
}
