// SPDX-License-Identifier: Apache-2.0
//
// Threads map and unmap memory all the time, while the device computes: a mapping must keep its
// contents whatever the driver does with the addresses of the process. Prints "step N" every now and
// then, and PASSED when the file "finish" exists.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "check.h"

static std::atomic<bool> stop{false};
static std::atomic<unsigned> spoilt{0};

struct Mapping {
  unsigned *at;
  size_t words;
  unsigned value;

  explicit Mapping(std::mt19937 &random) {
    size_t pages = size_t{1} << random() % 11;  // 4 KiB to 4 MiB
    words = pages * 1024;
    value = random();
    at = static_cast<unsigned *>(mmap(nullptr, words * 4, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t i = 0; i < words; i += 1024) at[i] = value;
  }
  void unmap() {
    for (size_t i = 0; i < words; i += 1024)
      if (at[i] != value) ++spoilt;
    munmap(at, words * 4);
  }
};

static void map_and_unmap(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Mapping> all;
  while (!stop) {
    all.emplace_back(random);
    if (all.size() > 8) {
      size_t i = random() % all.size();
      all[i].unmap();
      all.erase(all.begin() + i);
    }
    usleep(500);
  }
  for (Mapping &m : all) m.unmap();
}

// With "split": a file that the program has mapped, of which one half may be written to only now and
// then, so that it is one mapping for the kernel, or two.
static void split_and_join() {
  constexpr size_t kHalf = 1 << 20;
  FILE *file = std::tmpfile();
  if (!file || ftruncate(fileno(file), 2 * kHalf) != 0) std::exit(1);
  void *at = mmap(nullptr, 2 * kHalf, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  for (bool joined = true; !stop; joined = !joined) {
    mprotect(at, kHalf, joined ? PROT_READ : PROT_READ | PROT_WRITE);
    usleep(20000);
  }
}

__global__ void add_one(unsigned *count) { ++*count; }

int main(int argc, char **) {
  std::vector<std::thread> threads;
  if (argc > 1) threads.emplace_back(split_and_join);
  for (unsigned i = 0; i < 3; ++i) threads.emplace_back(map_and_unmap, i);
  unsigned *count, host = 0, steps = 0;
  CUDA(cudaMalloc(&count, sizeof *count));
  CUDA(cudaMemset(count, 0, sizeof *count));
  while (access("finish", F_OK) != 0) {
    add_one<<<1, 1>>>(count);
    CUDA(cudaMemcpy(&host, count, sizeof host, cudaMemcpyDeviceToHost));
    if (host != ++steps) return 1;
    if (steps % 100 == 1) std::printf("step %u\n", steps), std::fflush(stdout);
    usleep(1000);
  }
  stop = true;
  for (std::thread &t : threads) t.join();
  std::printf(spoilt == 0 ? "PASSED\n" : "%u mappings have lost their contents\n", spoilt.load());
  return spoilt == 0 ? 0 : 1;
}
