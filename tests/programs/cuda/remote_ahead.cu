// SPDX-License-Identifier: Apache-2.0
//
// A program that a test moves while its kernels write: all of one buffer, some of another one, and
// nothing of a third. A fourth is freed and made again, step after step, also while the test waits.
//
//   remote_ahead [STEPS [MIB]]   prints "step N" as wanted_steps.h has it
#include "wanted_steps.h"

__global__ void add(unsigned *data, int n, int stride) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * stride;
  if (i < n) data[i] += i + 1;
}

struct Buffer {
  int words, stride;  // every so many words are written; 0: none
  unsigned *device;
  std::vector<unsigned> host = std::vector<unsigned>(words);

  Buffer(int n, int s) : words(n), stride(s) {
    for (int i = 0; i < words; i++) host[i] = i * 2654435761u;
    CUDA(cudaMalloc(&device, words * 4ull));
    CUDA(cudaMemcpy(device, host.data(), words * 4ull, cudaMemcpyHostToDevice));
  }
  void write() {
    if (stride == 0) return;
    add<<<words / stride / 256 + 1, 256>>>(device, words, stride);
    for (int i = 0; i < words; i += stride) host[i] += i + 1;
  }
  bool is_right() {
    std::vector<unsigned> back(words);
    CUDA(cudaMemcpy(back.data(), device, words * 4ull, cudaMemcpyDeviceToHost));
    return back == host;
  }
};

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 4, words = (argc > 2 ? std::atoi(argv[2]) : 4) << 18;
  Buffer all(words, 1), some(words, 100'003), none(words, 0);
  void *passing = nullptr;
  auto work = [&] {
    all.write();
    some.write();
    CUDA(cudaFree(passing));
    CUDA(cudaMalloc(&passing, words * 4ull));
    CUDA(cudaMemset(passing, 1, words * 4ull));
  };
  CUDA(cudaMalloc(&passing, words * 4ull));
  for (int s = 1; s <= steps; s++) {
    work();
    std::printf("step %d\n", s);
    std::fflush(stdout);
    while (!may_go_on(s)) {
      work();
      usleep(1000);
    }
    CHECK(all.is_right() && some.is_right() && none.is_right());
  }
  return passed();
}
