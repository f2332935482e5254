// SPDX-License-Identifier: Apache-2.0
//
// A program that writes to its memory objects all the time, to each in another way. Every object
// has the number of the step in all its elements, and is looked at before it is written: whatever
// step the host has reached, the objects belong to it. Ends when CKPT_TEST_GO exists.
#include <array>
#include <functional>

#include "cl_test.h"

static const char *const kSource =
    "__kernel void next(__global int *d) { d[get_global_id(0)] += 1; }\n";
static constexpr size_t kInts = 1 << 19, kBytes = kInts * sizeof(int);
static constexpr size_t kLargeInts = 10 * kInts;  // several pieces of a checkpoint's copies
static constexpr size_t kWidth = 512, kHeight = 512;

struct Object {
  size_t ints = 0;
  std::function<void(cl_mem, int)> write;  // makes all elements of a memory object this number
  cl_mem mem = nullptr;
};

struct Work : Cl {
  cl_kernel next = kernel(build(kSource), "next");
  cl_mem steps = buffer(kBytes);  // from which others are copied
  std::vector<int> host = std::vector<int>(kLargeInts);

  const int *all(int value) {
    std::fill(host.begin(), host.end(), value);
    return host.data();
  }
  void launch(cl_mem m, size_t ints) const {
    CL(clSetKernelArg(next, 0, sizeof m, &m));
    CL(clEnqueueNDRangeKernel(queue, next, 1, nullptr, &ints, nullptr, 0, nullptr, nullptr));
  }
  void write(cl_mem m, int value, cl_bool blocking) {
    CL(clEnqueueWriteBuffer(queue, m, blocking, 0, kBytes, all(value), 0, nullptr, nullptr));
    CL(clFinish(queue));
  }
  void write_rows(cl_mem m, int value) {
    size_t origin[3] = {0, 0, 0}, region[3] = {4096, kBytes / 4096, 1};
    CL(clEnqueueWriteBufferRect(queue, m, CL_TRUE, origin, origin, region, 4096, 0, 4096, 0,
                                all(value), 0, nullptr, nullptr));
  }
  void write_halves(cl_mem m, int value) {
    for (size_t half : {size_t{0}, kBytes / 2}) {
      cl_int status;
      cl_buffer_region part{half, kBytes / 2};
      cl_mem sub = clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, &part, &status);
      CL(status);
      CL(clEnqueueWriteBuffer(queue, sub, CL_TRUE, 0, part.size, all(value), 0, nullptr, nullptr));
      CL(clReleaseMemObject(sub));
    }
  }
  void map(cl_mem m, int value) const {
    cl_int status;
    auto *at = static_cast<int *>(clEnqueueMapBuffer(queue, m, CL_TRUE, CL_MAP_WRITE, 0, kBytes, 0,
                                                     nullptr, nullptr, &status));
    CL(status);
    std::fill(at, at + kInts, value);
    CL(clEnqueueUnmapMemObject(queue, m, at, 0, nullptr, nullptr));
  }
  void write_image(cl_mem m, int value) {
    size_t origin[3] = {0, 0, 0}, region[3] = {kWidth, kHeight, 1};
    CL(clEnqueueWriteImage(queue, m, CL_TRUE, origin, region, 0, 0, all(value), 0, nullptr,
                           nullptr));
  }
  std::array<int, 3> some(const Object &o) const {
    std::array<int, 3> v{};
    cl_mem_object_type type;
    CL(clGetMemObjectInfo(o.mem, CL_MEM_TYPE, sizeof type, &type, nullptr));
    for (size_t i = 0; i < v.size(); i++) {
      size_t at = i * (o.ints - 1) / 2, origin[3] = {at % kWidth, at / kWidth, 0},
             one[3] = {1, 1, 1};
      if (type == CL_MEM_OBJECT_BUFFER)
        CL(clEnqueueReadBuffer(queue, o.mem, CL_TRUE, at * sizeof(int), sizeof(int), &v[i], 0,
                               nullptr, nullptr));
      else
        CL(clEnqueueReadImage(queue, o.mem, CL_TRUE, origin, one, 0, 0, &v[i], 0, nullptr,
                              nullptr));
    }
    return v;
  }
  cl_mem image() const {
    cl_int status;
    cl_image_format format{CL_R, CL_SIGNED_INT32};
    cl_image_desc d{};
    d.image_type = CL_MEM_OBJECT_IMAGE2D;
    d.image_width = kWidth;
    d.image_height = kHeight;
    cl_mem m = clCreateImage(context, CL_MEM_READ_WRITE, &format, &d, nullptr, &status);
    CL(status);
    return m;
  }
};

static std::vector<Object> objects(Work &w) {
  return {
      {kLargeInts, [&w](cl_mem m, int) { w.launch(m, kLargeInts); }},
      {kInts, [&w](cl_mem m, int) { w.launch(m, kInts); }},
      {kInts, [&w](cl_mem m, int v) { w.write(m, v, CL_TRUE); }},
      {kInts, [&w](cl_mem m, int v) { w.write(m, v, CL_FALSE); }},
      {kInts, [&w](cl_mem m, int v) { w.write_rows(m, v); }},
      {kInts, [&w](cl_mem m, int v) { w.write_halves(m, v); }},
      {kInts, [&w](cl_mem m, int v) { w.map(m, v); }},
      {kInts,
       [&w](cl_mem m, int v) {
         CL(clEnqueueFillBuffer(w.queue, m, &v, sizeof v, 0, kBytes, 0, nullptr, nullptr));
       }},
      {kInts,
       [&w](cl_mem m, int v) {
         w.write(w.steps, v, CL_TRUE);
         CL(clEnqueueCopyBuffer(w.queue, w.steps, m, 0, 0, kBytes, 0, nullptr, nullptr));
       }},
      {kWidth * kHeight, [&w](cl_mem m, int v) { w.write_image(m, v); }},
  };
}

static void make(Work &w, std::vector<Object> &all) {
  const int zero = 0;
  for (Object &o : all) {
    if (&o == &all.back()) {
      o.mem = w.image();
      w.write_image(o.mem, 0);
    } else {
      o.mem = w.buffer(o.ints * sizeof(int));
      CL(clEnqueueFillBuffer(w.queue, o.mem, &zero, sizeof zero, 0, o.ints * sizeof(int), 0,
                             nullptr, nullptr));
    }
  }
}

int main() {
  Work w;
  std::vector<Object> all = objects(w);
  make(w, all);
  const char *go = std::getenv("CKPT_TEST_GO");
  int step = 0;
  for (; g_failures == 0 && (step < 3 || (go && ::access(go, F_OK) != 0)); step++) {
    for (size_t i = 0; i < all.size(); i++) {
      for (int v : w.some(all[i])) {
        EXPECT(v == step);
        if (v != step) std::printf("object %zu: %d instead of %d\n", i, v, step);
      }
      all[i].write(all[i].mem, step + 1);
    }
    CL(clFinish(w.queue));
    std::printf("step %d\n", step + 1);
    std::fflush(stdout);
  }
  for (const Object &o : all) EXPECT(w.read_ints(w.steps, 1)[0] == step && w.some(o)[0] == step);
  return finish();
}
