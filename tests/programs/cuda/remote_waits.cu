// SPDX-License-Identifier: Apache-2.0
//
// Calls that wait for the device on the program's own node, and of which the program must not notice
// whether it or the server waits.
//
//   remote_waits [2]   2: another thread has made a call, too
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.h"

constexpr int kWords = 1 << 16, kTimes = 5;

__global__ void add(unsigned *data, unsigned v) { data[blockIdx.x * blockDim.x + threadIdx.x] += v; }

// A copy that waits is complete before work of a stream that waits for no other one.
static void a_stream_sees_what_was_copied() {
  cudaStream_t stream;
  unsigned *data;
  std::vector<unsigned> host(kWords), back(kWords);
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA(cudaMalloc(&data, kWords * 4));
  for (unsigned round = 0; round < kTimes; round++) {
    for (int i = 0; i < kWords; i++) host[i] = i * round;
    CUDA(cudaMemcpy(data, host.data(), kWords * 4, cudaMemcpyHostToDevice));
    add<<<kWords / 256, 256, 0, stream>>>(data, round);
    std::fill(host.begin(), host.end(), 0);  // the copy has read it
    CUDA(cudaMemcpyAsync(back.data(), data, kWords * 4, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    for (unsigned i = 0; i < kWords; i++) CHECK(back[i] == i * round + round);
  }
  CUDA(cudaFree(data));
  CUDA(cudaStreamDestroy(stream));
}

static void fills_and_copies_within_the_device() {
  unsigned *from, *to;
  std::vector<unsigned> back(kWords);
  CUDA(cudaMalloc(&from, kWords * 4));
  CUDA(cudaMalloc(&to, kWords * 4));
  for (int round = 0; round < kTimes; round++) {
    CUDA(cudaMemset(from, round, kWords * 4));
    CUDA(cudaMemcpy(to, from, kWords * 4, cudaMemcpyDeviceToDevice));
  }
  CUDA(cudaMemcpy(back.data(), to, kWords * 4, cudaMemcpyDeviceToHost));
  for (unsigned v : back) CHECK(v == (kTimes - 1) * 0x01010101u);
  // The memory is given away again at once.
  for (int round = 0; round < kTimes; round++) {
    CUDA(cudaFree(from));
    CUDA(cudaMalloc(&from, kWords * 4));
    CUDA(cudaMemset(from, 7, kWords * 4));
  }
  CUDA(cudaMemcpy(back.data(), from, kWords * 4, cudaMemcpyDeviceToHost));
  for (unsigned v : back) CHECK(v == 0x07070707u);
  CUDA(cudaFree(from));
  CUDA(cudaFree(to));
}

static void a_host_function_has_run_before_its_memory_is_freed() {
  static std::atomic<bool> has_run{false};
  void *data;
  CUDA(cudaMalloc(&data, 4096));
  auto late = [](void *) {
    usleep(100'000);
    has_run = true;
  };
  CUDA(cudaLaunchHostFunc(nullptr, late, nullptr));
  CUDA(cudaFree(data));
  CHECK(has_run);
}

static void wrong_calls_fail_at_once() {
  unsigned *data, host[4] = {};
  CUDA(cudaMalloc(&data, sizeof host));
  unsigned *beyond = data + (1 << 20);
  CHECK(cudaMemcpy(beyond, host, sizeof host, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemset(beyond, 1, sizeof host) == cudaErrorInvalidValue);
  CHECK(cudaFree(reinterpret_cast<char *>(data) + 1) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CUDA(cudaFree(data));
}

int main(int argc, char **argv) {
  if (argc > 1 && std::atoi(argv[1]) == 2) std::thread([] { CUDA(cudaDeviceSynchronize()); }).join();
  a_stream_sees_what_was_copied();
  fills_and_copies_within_the_device();
  a_host_function_has_run_before_its_memory_is_freed();
  wrong_calls_fail_at_once();
  return passed();
}
