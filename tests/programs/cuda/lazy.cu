// SPDX-License-Identifier: Apache-2.0
//
// A kernel is launched for the first time while another one runs, which ends only when the host says
// so. Prints "waits" if the launch waits for it, otherwise "at once"; and the same of a second launch.
#include <atomic>
#include <thread>

#include "check.h"

__global__ void wait_for(volatile int *flag) {
  while (*flag == 0) {
  }
}
__global__ void add_to(int *p) { *p += 1; }

static const char *launch(volatile int *flag, int *sum) {
  static cudaStream_t a, b;
  if (a == nullptr) {
    CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  }
  *flag = 0;
  wait_for<<<1, 1, 0, a>>>(const_cast<int *>(flag));
  std::atomic<bool> launched{false};
  std::thread other([&] {
    add_to<<<1, 1, 0, b>>>(sum);
    CUDA(cudaGetLastError());
    launched = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const char *result = launched ? "at once" : "waits";
  *flag = 1;
  other.join();
  CUDA(cudaDeviceSynchronize());
  return result;
}

int main() {
  int *flag, *sum;
  CUDA(cudaHostAlloc(&flag, sizeof *flag, cudaHostAllocMapped));
  CUDA(cudaHostAlloc(&sum, sizeof *sum, cudaHostAllocMapped));
  *sum = 0;
  for (int i = 0; i < 2; ++i) std::puts(launch(flag, sum));
  CHECK(*sum == 2);
  return passed();
}
