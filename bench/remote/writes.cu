// SPDX-License-Identifier: Apache-2.0
//
// A program that a benchmark moves: it has device memory and goes on to write a part of it, step after
// step. At the end it checks all of its memory.
//
//   writes MIB PERCENT FILE   prints "ready" after its first step; ends when FILE exists
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t e) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(e));
  std::exit(1);
}

using Word = unsigned long long;
constexpr Word kPage = 4096 / sizeof(Word);

// Neither zeros nor anything else that compresses.
__host__ __device__ static Word word_at(Word i, Word version) {
  Word x = (i + 1) * 0x9e3779b97f4a7c15u + version * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 30)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A word of each page.
__global__ void write(Word *memory, Word pages, Word version) {
  Word i = blockIdx.x * static_cast<Word>(blockDim.x) + threadIdx.x;
  if (i < pages) memory[i * kPage] = word_at(i * kPage, version);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  const Word bytes = std::strtoull(argv[1], nullptr, 10) << 20, words = bytes / sizeof(Word);
  const Word pages = words / kPage * std::strtoull(argv[2], nullptr, 10) / 100;
  std::vector<Word> all(words);
  for (Word i = 0; i < words; i++) all[i] = word_at(i, 0);
  Word *memory, version = 0;
  check(cudaMalloc(&memory, bytes));
  check(cudaMemcpy(memory, all.data(), bytes, cudaMemcpyHostToDevice));
  auto step = [&] {
    version++;
    write<<<static_cast<unsigned>(pages / 256 + 1), 256>>>(memory, pages, version);
    check(cudaDeviceSynchronize());
  };
  step();
  std::puts("ready");
  std::fflush(stdout);
  while (access(argv[3], F_OK) != 0) {
    step();
    usleep(20'000);
  }
  for (Word i = 0; i < pages; i++) all[i * kPage] = word_at(i * kPage, version);
  std::vector<Word> back(words);
  check(cudaMemcpy(back.data(), memory, bytes, cudaMemcpyDeviceToHost));
  if (back != all) return 1;
  std::puts("right");
  return 0;
}
