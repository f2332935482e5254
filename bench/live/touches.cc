// SPDX-License-Identifier: Apache-2.0
//
// A program with host memory that it reads again after a restore, for bench/live/lazy.
//
//   touches MIB zeros|smooth|random
//
// Fills its memory, prints "filled", and waits for the file `go` in its folder, which has a number:
// the percentage of its pages that it reads then, side by side, from the middle of the memory. It
// prints
//
//   on TIME               when it has seen the file: it was restored, and has gone on
//   touched TIME PAGES    when it has read these pages; so many pages of all were there then
//   right|wrong           once the file `check` is there, whether all bytes are what they were
//
// TIME is that of CLOCK_REALTIME in seconds: a restored program's CLOCK_MONOTONIC goes on where it
// was.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench/content.h"

namespace {

using Memory = std::span<std::uint64_t>;
constexpr std::size_t kPage = 4096, kWords = kPage / sizeof(std::uint64_t);

double now() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

Memory filled(std::size_t bytes, const std::string &kind) {
  void *at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  ckpt::bench::Content(kind).fill(static_cast<float *>(at), bytes / sizeof(float));
  return {static_cast<std::uint64_t *>(at), bytes / sizeof(std::uint64_t)};
}

// Depends on the place of each word.
std::uint64_t checksum(Memory memory) {
  std::uint64_t sum = 0;
  for (std::uint64_t word : memory) sum = (sum ^ word) * 0x9e3779b97f4a7c15u + 1;
  return sum;
}

void wait_for(const char *file) {
  while (::access(file, F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::uint64_t touch(Memory memory, double percent) {
  std::size_t pages = memory.size() / kWords;
  auto count = static_cast<std::size_t>(static_cast<double>(pages) * percent / 100);
  std::uint64_t sum = 0;
  for (std::size_t i = 0, first = (pages - count) / 2; i < count; i++)
    sum += *const_cast<volatile std::uint64_t *>(&memory[(first + i) * kWords]);
  return sum;
}

std::size_t pages_there(Memory memory) {
  std::vector<unsigned char> there(memory.size() / kWords);
  ::mincore(memory.data(), memory.size_bytes(), there.data());
  std::size_t count = 0;
  for (unsigned char t : there) count += t & 1;
  return count;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: touches MIB zeros|smooth|random\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Memory memory = filled(std::strtoul(argv[1], nullptr, 10) << 20, argv[2]);
  std::uint64_t before = checksum(memory);
  std::puts("filled");
  wait_for("go");
  std::printf("on %.6f\n", now());
  double percent = 0;
  std::ifstream("go") >> percent;
  touch(memory, percent);
  double then = now();
  std::printf("touched %.6f %zu\n", then, pages_there(memory));
  wait_for("check");
  std::puts(checksum(memory) == before ? "right" : "wrong");
  return 0;
}
