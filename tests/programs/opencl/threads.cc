// SPDX-License-Identifier: Apache-2.0
//
// Four threads, each with its own queue, compute without a pause until the file of CKPT_TEST_GO
// exists, so that a dump finds them in the middle of launches, reads, waits and maps. Every value
// is checked.
#include <atomic>
#include <thread>

#include "cl_test.h"

int main() {
  Cl cl;
  cl_program p = cl.build(
      "__kernel void next(__global uint *d) { size_t i = get_global_id(0); d[i] = d[i] * 1664525u "
      "+ 1013904223u; }");
  const char *go = std::getenv("CKPT_TEST_GO");
  std::atomic<long> rounds{0};
  std::atomic<int> wrong{0};
  auto work = [&](unsigned seed) {
    constexpr size_t n = 2048;
    cl_int status;
    cl_command_queue queue = clCreateCommandQueue(cl.context, cl.device, 0, &status);
    CL(status);
    std::vector<unsigned> host(n), got(n);
    for (size_t i = 0; i < n; i++) host[i] = seed + static_cast<unsigned>(i);
    cl_mem m = cl.buffer(n * 4, CL_MEM_COPY_HOST_PTR, host.data());
    cl_kernel k = cl.kernel(p, "next");
    CL(clSetKernelArg(k, 0, sizeof m, &m));
    size_t global = n;
    while (!go || ::access(go, F_OK) != 0) {
      for (int i = 0; i < 5; i++) {
        CL(clEnqueueNDRangeKernel(queue, k, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
        for (unsigned &h : host) h = h * 1664525u + 1013904223u;
      }
      CL(clEnqueueReadBuffer(queue, m, rounds % 2 ? CL_TRUE : CL_FALSE, 0, n * 4, got.data(), 0,
                             nullptr, nullptr));
      CL(clFinish(queue));
      wrong += got != host;
      void *mapped = clEnqueueMapBuffer(queue, m, CL_TRUE, CL_MAP_READ, 0, n * 4, 0, nullptr,
                                        nullptr, &status);
      CL(status);
      wrong += std::memcmp(mapped, host.data(), n * 4) != 0;
      CL(clEnqueueUnmapMemObject(queue, m, mapped, 0, nullptr, nullptr));
      if (rounds.fetch_add(1) == 20) {
        std::printf("READY\n");
        std::fflush(stdout);
      }
      if (!go && rounds > 200) break;
    }
  };
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 4; t++) all.emplace_back(work, t * 7919);
  for (std::thread &t : all) t.join();
  EXPECT(wrong == 0);
  return finish();
}
