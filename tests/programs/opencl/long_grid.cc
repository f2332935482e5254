// SPDX-License-Identifier: Apache-2.0
//
// A kernel with short work-groups and a long run time: long_grid [GROUPS [LAUNCHES [ROUNDS
// [OFFSET]]]]. Prints a line before the launches, the time of all of them, and a hash of the
// result.
#include <chrono>

#include "cl_test.h"

int main(int argc, char **argv) {
  const size_t groups = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  const int launches = argc > 2 ? std::atoi(argv[2]) : 1;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5000;
  const size_t offset = argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 0;
  const size_t local = 32, items = groups * local;
  Cl cl;
  cl_program p = cl.build(R"(
__kernel void mix_numbers(__global uint *out, int rounds) {
  uint x = get_global_id(0) + 1;
  for (int i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u + (x >> 7);
  out[get_global_id(0) - get_global_offset(0)] += x + get_num_groups(0);
}
)");
  std::vector<unsigned> host(items);
  cl_mem out = cl.buffer(items * sizeof(unsigned), CL_MEM_COPY_HOST_PTR, host.data());
  cl_kernel k = cl.kernel(p, "mix_numbers");
  CL(clSetKernelArg(k, 0, sizeof out, &out));
  CL(clSetKernelArg(k, 1, sizeof rounds, &rounds));
  std::puts("launching");
  std::fflush(stdout);
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; i++)
    CL(clEnqueueNDRangeKernel(cl.queue, k, 1, &offset, &items, &local, 0, nullptr, nullptr));
  CL(clFinish(cl.queue));
  std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  CL(clEnqueueReadBuffer(cl.queue, out, CL_TRUE, 0, items * sizeof(unsigned), host.data(), 0,
                         nullptr, nullptr));
  unsigned long long hash = 14695981039346656037ull;
  for (unsigned v : host) hash = (hash ^ v) * 1099511628211ull;
  std::printf("seconds %.4f\nhash %016llx\n", taken.count(), hash);
  return finish();
}
