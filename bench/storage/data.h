// SPDX-License-Identifier: Apache-2.0
//
// Shared by the benchmarks of storage/: the data to store, a scratch folder and a clock.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "bench/content.h"
#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::bench {

using Clock = std::chrono::steady_clock;
inline constexpr int kRounds = 5;

inline double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline void require(const Result<> &r) {
  if (r) return;
  fprintf(stderr, "bench: %s\n", r.error().text().c_str());
  exit(1);
}

inline double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

// A new folder in the one that the second argument names (default /tmp), removed at the end.
class Scratch {
 public:
  Scratch(int argc, char **argv, const char *name)
      : path_(std::string(argc > 2 ? argv[2] : "/tmp") + "/" + name + "-XXXXXX") {
    if (::mkdtemp(path_.data())) return;
    perror(path_.c_str());
    exit(1);
  }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const char *name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The first argument, in MiB, converted to bytes.
inline size_t size_argument(int argc, char **argv, long default_mib) {
  long mib = argc > 1 ? atol(argv[1]) : default_mib;
  if (mib >= 64) return static_cast<size_t>(mib) << 20;
  fprintf(stderr, "bench: the size must be at least 64 MiB\n");
  exit(1);
}

inline Bytes content(const char *kind, size_t n) {
  Bytes out(n);
  Content(kind).fill(reinterpret_cast<float *>(out.data()), n / sizeof(float));
  return out;
}
inline Bytes smooth_floats(size_t n) { return content("smooth", n); }
inline Bytes random_bytes(size_t n) { return content("random", n); }

}  // namespace ckpt::bench
