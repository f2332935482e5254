// SPDX-License-Identifier: Apache-2.0
//
// fatbin-bench FILE…: how fast large files are examined, for instance the toolkit's libcublasLt.so.
//
//   headers   what ckpt-fatbin --entries reads; bytes of the whole file
//   raw       the facts of uncompressed cubins, in one thread; bytes of those cubins
//   all       the facts of all entries; decompressed bytes
//
// Each line is the best of three rounds, with the file in the page cache.
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "fatbin/cubin.h"
#include "fatbin/summary.h"

namespace ckpt::fatbin {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 3;

template <class T>
T require(Result<T> r) {
  if (r) return std::move(*r);
  fprintf(stderr, "fatbin-bench: %s\n", r.error().text().c_str());
  exit(1);
}

template <class F>
double best_of(F work) {
  double best = 1e9;
  for (int i = 0; i < kRounds; ++i) {
    Clock::time_point start = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

void line(const char *what, u64 bytes, double seconds) {
  double gb = static_cast<double>(bytes) / 1e9;
  printf("  %-10s %8.3f GB in %7.3f s   %8.2f GB/s\n", what, gb, seconds, gb / seconds);
}

// Returns the bytes of the cubins that it examined.
u64 examine_raw(const Image &image) {
  u64 bytes = 0;
  for (const Container &c : image.containers())
    for (const Entry &e : c.entries) {
      if (e.kind != Kind::Elf || e.compression != Compression::None) continue;
      require(facts_of_cubin(require(image.payload(e)).bytes()));
      bytes += e.bytes;
    }
  return bytes;
}

void bench(const char *path) {
  printf("%s\n", path);
  u64 bytes = require(Image::open(path)).bytes();
  line("headers", bytes, best_of([&] { require(Image::open(path)); }));
  Image image = require(Image::open(path));
  u64 raw = 0;
  double seconds = best_of([&] { raw = examine_raw(image); });
  if (raw > 0) line("raw", raw, seconds);
  u64 all = 0;
  seconds = best_of([&] { all = require(summarize(image)).payload_bytes; });
  line("all", all, seconds);
}

}  // namespace
}  // namespace ckpt::fatbin

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: fatbin-bench FILE...\n");
    return 1;
  }
  for (int i = 1; i < argc; ++i) ckpt::fatbin::bench(argv[i]);
  struct rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  printf("peak memory %.0f MiB\n", static_cast<double>(usage.ru_maxrss) / 1024);
  return 0;
}
