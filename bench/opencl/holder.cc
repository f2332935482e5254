// SPDX-License-Identifier: Apache-2.0
//
// An OpenCL program that holds device memory and waits, for bench/opencl/images.
//
//   holder MIB BUFFERS zeros|smooth|random FILE
//
// Prints READY. When FILE exists, it writes to the last buffer, reads from it, and prints AGAIN.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/content.h"
#include "bench/opencl/device.h"

namespace {

using ckpt::bench::Content;
using ckpt::bench::Device;

void say(const char *word) {
  std::puts(word);
  std::fflush(stdout);
}

// Fills `count` buffers and returns the last one.
cl_mem fill_buffers(const Device &d, size_t count, size_t floats, const char *kind) {
  Content content(kind);
  std::vector<float> host(floats);
  size_t bytes = floats * sizeof(float);
  cl_mem last = nullptr;
  for (size_t i = 0; i < count; i++) {
    content.fill(host.data(), host.size());
    last = d.buffer(bytes);
    CL(clEnqueueWriteBuffer(d.queue, last, CL_TRUE, 0, bytes, host.data(), 0, nullptr, nullptr));
  }
  CL(clFinish(d.queue));
  return last;
}

void use(const Device &d, cl_mem m, size_t bytes) {
  float word = 1;
  CL(clEnqueueFillBuffer(d.queue, m, &word, sizeof word, 0, bytes, 0, nullptr, nullptr));
  CL(clEnqueueReadBuffer(d.queue, m, CL_TRUE, 0, sizeof word, &word, 0, nullptr, nullptr));
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: holder MIB BUFFERS zeros|smooth|random FILE\n");
    return 2;
  }
  size_t buffers = std::strtoul(argv[2], nullptr, 10);
  size_t floats = (std::strtoul(argv[1], nullptr, 10) << 18) / buffers;
  Device device;
  cl_mem last = fill_buffers(device, buffers, floats, argv[3]);
  say("READY");
  while (::access(argv[4], F_OK) != 0) ::usleep(500);
  use(device, last, floats * sizeof(float));
  say("AGAIN");
  ::pause();
}
