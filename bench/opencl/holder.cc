// SPDX-License-Identifier: Apache-2.0
//
// An OpenCL program that holds device memory and waits, for bench/opencl/images.
//
//   holder MIB BUFFERS zeros|smooth|random FILE
//
// Prints READY when the buffers are filled. When FILE exists, writes to the last buffer, reads from
// it and prints AGAIN.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/content.h"

namespace {

#define CL(call)                                                                  \
  do {                                                                            \
    if (cl_int status_ = (call); status_ != CL_SUCCESS) {                         \
      std::fprintf(stderr, "holder: %s: OpenCL error %d\n", #call, (int)status_); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)

void say(const char *word) {
  std::puts(word);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: holder MIB BUFFERS zeros|smooth|random FILE\n");
    return 2;
  }
  size_t buffers = std::strtoul(argv[2], nullptr, 10);
  size_t floats = (std::strtoul(argv[1], nullptr, 10) << 18) / buffers;
  cl_platform_id platform;
  cl_device_id device;
  cl_int status;
  CL(clGetPlatformIDs(1, &platform, nullptr));
  CL(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr));
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
  CL(status);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
  CL(status);
  ckpt::bench::Content content(argv[3]);
  std::vector<float> host(floats);
  cl_mem last = nullptr;
  for (size_t i = 0; i < buffers; i++) {
    content.fill(host.data(), host.size());
    last = clCreateBuffer(context, CL_MEM_READ_WRITE, floats * sizeof(float), nullptr, &status);
    CL(status);
    CL(clEnqueueWriteBuffer(queue, last, CL_TRUE, 0, floats * sizeof(float), host.data(), 0,
                            nullptr, nullptr));
  }
  CL(clFinish(queue));
  host = {};
  say("READY");
  while (::access(argv[4], F_OK) != 0) ::usleep(500);
  float word = 1;
  CL(clEnqueueFillBuffer(queue, last, &word, sizeof word, 0, floats * sizeof(float), 0, nullptr,
                         nullptr));
  CL(clEnqueueReadBuffer(queue, last, CL_TRUE, 0, sizeof word, &word, 0, nullptr, nullptr));
  say("AGAIN");
  ::pause();
}
