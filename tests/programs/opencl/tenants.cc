// SPDX-License-Identifier: Apache-2.0
//
// Threads that share a device with each other and with other programs: `tenants THREADS ROUNDS MIB
// SEED`. In each round a thread creates a large buffer of up to MIB MiB and a small one, fills
// both, checks them after a pause, and releases them.
#include <random>
#include <thread>

#include "cl_test.h"

static void fill(cl_command_queue queue, cl_mem m, size_t bytes, cl_uint value) {
  CL(clEnqueueFillBuffer(queue, m, &value, sizeof value, 0, bytes, 0, nullptr, nullptr));
}

static void check(cl_command_queue queue, cl_mem m, size_t bytes, cl_uint value) {
  std::vector<cl_uint> back(bytes / sizeof(cl_uint));
  CL(clEnqueueReadBuffer(queue, m, CL_TRUE, 0, bytes, back.data(), 0, nullptr, nullptr));
  size_t wrong = 0;
  for (cl_uint v : back) wrong += v != value;
  EXPECT(wrong == 0);
}

static void live(const Cl &cl, int rounds, size_t mib, unsigned seed) {
  std::mt19937 random(seed);
  cl_int status;
  cl_command_queue queue = clCreateCommandQueue(cl.context, cl.device, 0, &status);
  CL(status);
  for (int r = 0; r < rounds; r++) {
    size_t large = (1 + random() % mib) << 20, small = (1 + random() % 64) << 10;
    cl_mem a = cl.buffer(large), b = cl.buffer(small);
    cl_uint value = static_cast<cl_uint>(random());
    fill(queue, a, large, value);
    fill(queue, b, small, ~value);
    CL(clFinish(queue));
    ::usleep(random() % 10000);
    check(queue, a, large, value);
    check(queue, b, small, ~value);
    CL(clReleaseMemObject(a));
    CL(clReleaseMemObject(b));
  }
}

int main(int, char **argv) {
  Cl cl;
  std::vector<std::thread> threads;
  unsigned seed = static_cast<unsigned>(std::atoi(argv[4])) * 100;
  for (int i = 0; i < std::atoi(argv[1]); i++)
    threads.emplace_back([&, i] {
      live(cl, std::atoi(argv[2]), std::strtoul(argv[3], nullptr, 10),
           seed + static_cast<unsigned>(i));
    });
  for (std::thread &t : threads) t.join();
  return finish();
}
