// SPDX-License-Identifier: Apache-2.0
//
// What the programs of bench/mobile share: options, times and exit.
//
//   PROGRAM [--mib N] [--work N] [--steps N] [--gap SECONDS]
//
// --mib    device memory to allocate, in MiB. A step touches --work elements of it, and only copies
//          touch the rest: the software device interprets kernels, and a device model says how long
//          they take.
// --steps  the number of steps
// --gap    seconds of work on the host after each step
//
// The last line but one gives the PID and the times (CLOCK_MONOTONIC) at which the program entered
// main(), had its data on the device, had computed and had checked the results. The last line is
// PASSED or FAILED.
#pragma once

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace mobile {

struct Options {
  size_t mib = 12;
  size_t work = 4096;
  size_t steps = 8;
  double gap = 0;
};

inline double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct Times {
  double started = now(), loaded = 0, computed = 0;
};

[[noreturn]] inline void fail(const char *file, int line, const char *what, const char *why) {
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, why);
  std::puts("FAILED");
  std::fflush(stdout);
  std::_Exit(1);
}

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) mobile::fail(__FILE__, __LINE__, #condition, "does not hold"); \
  } while (0)

inline Options read_options(int argc, char **argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const char *name = argv[i], *value = argv[i + 1];
    char *end = nullptr;
    double number = std::strtod(value, &end);
    size_t *field = std::strcmp(name, "--mib") == 0     ? &o.mib
                    : std::strcmp(name, "--work") == 0  ? &o.work
                    : std::strcmp(name, "--steps") == 0 ? &o.steps
                                                        : nullptr;
    bool gap = std::strcmp(name, "--gap") == 0;
    if (*end != '\0' || number < 0 || (field == nullptr && !gap))
      fail(__FILE__, __LINE__, name, "unknown option, or not a number");
    if (gap)
      o.gap = number;
    else
      *field = static_cast<size_t>(number);
  }
  if (argc % 2 == 0) fail(__FILE__, __LINE__, argv[argc - 1], "the value is missing");
  if (o.mib < 6 || o.work < 1)
    fail(__FILE__, __LINE__, "--mib, --work", "must be at least 6 and 1");
  return o;
}

// Stands for work of the host. It sleeps, since this machine has fewer cores than programs. A
// checkpoint interrupts the sleep.
inline void host_works(double seconds) {
  double end = now() + seconds;
  timespec t{static_cast<time_t>(end), static_cast<long>((end - static_cast<time_t>(end)) * 1e9)};
  while (seconds > 0 && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

// Bytes of each of three vectors: multiples of 2 MiB, as devices allocate.
inline size_t vector_bytes(const Options &o) { return o.mib / 6 * (2 << 20); }
// What must be allocated besides to reach --mib.
inline size_t rest_bytes(const Options &o) { return (o.mib << 20) - 3 * vector_bytes(o); }

// The part of a vector that a step works on. Consecutive steps work on consecutive windows; after
// the last window the first one follows, which begins the next pass.
struct Windows {
  size_t size, count;
  Windows(size_t elements, size_t work)
      : size(work < elements ? work : elements), count(elements / size) {}
  size_t first(size_t step) const { return step % count * size; }
  size_t pass(size_t step) const { return step / count; }
  // How many of the first `steps` steps worked on the window of this element.
  size_t passes(size_t element, size_t steps) const {
    size_t w = element / size;
    return w >= count ? 0 : steps / count + (w < steps % count ? 1 : 0);
  }
};

// A pseudorandom value for index `i`, the same in every run.
inline uint32_t value(size_t i, uint32_t seed) {
  uint32_t x = static_cast<uint32_t>(i) * 2654435761u + seed * 40503u;
  return x ^ (x >> 15);
}

inline std::vector<uint32_t> values(size_t count, uint32_t seed) {
  std::vector<uint32_t> v(count);
  for (size_t i = 0; i < count; ++i) v[i] = value(i, seed);
  return v;
}

inline int passed(const Times &t) {
  std::printf("TIMES pid %d started %.6f loaded %.6f computed %.6f checked %.6f\n", getpid(),
              t.started, t.loaded, t.computed, now());
  std::puts("PASSED");
  return 0;
}

}  // namespace mobile
