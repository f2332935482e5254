// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/clock.h"

#include <time.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "softcuda/broker/client.h"
#include "softcuda/driver/process.h"

namespace ckpt::softcuda::driver {
namespace {

constexpr double kMostSeconds = 600;

double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

void pass(Context &c, broker::Engine engine, i64 since, double seconds) {
  auto *client = static_cast<broker::Client *>(process().budget.get());
  i64 duration = static_cast<i64>(std::min(seconds, kMostSeconds) * 1e9);
  Result<i64> end = client->reserve(static_cast<u32>(c.device->index), engine, since, duration);
  if (!end) return;
  timespec t{*end / 1'000'000'000, *end % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

}  // namespace

Result<Model> read_model(const std::string &path) {
  std::ifstream in(path);
  if (!in)
    return fail_with_hint(fmt::format("cannot read the device model {}", path),
                          "CKPT_SOFTCUDA_MODEL names it");
  Model m;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, rest;
    double value = 0;
    if (!(words >> name)) continue;
    double *field = name == "compute"  ? &m.compute
                    : name == "memory" ? &m.memory
                    : name == "copy"   ? &m.copy
                    : name == "launch" ? &m.launch
                                       : nullptr;
    if (field == nullptr || !(words >> value) || value < 0 || (words >> rest))
      return fail_with_hint(fmt::format("{}:{}: '{}' is not understood", path, number, line),
                            "lines are: compute RATE, memory RATE, copy RATE, launch SECONDS");
    *field = value;
  }
  return m;
}

i64 device_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<i64>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

// Computing and loading overlap: the slower one counts.
void pass_kernel_time(Context &c, i64 since, u64 instructions, u64 memory_bytes) {
  const std::optional<Model> &m = process().model;
  if (!m) return;
  double work = std::max(over(static_cast<double>(instructions), m->compute),
                         over(static_cast<double>(memory_bytes), m->memory));
  pass(c, broker::Engine::Compute, since, m->launch + work);
}

void pass_copy_time(Context &c, i64 since, u64 bytes) {
  const std::optional<Model> &m = process().model;
  if (m)
    pass(c, broker::Engine::Copy, since, m->launch + over(static_cast<double>(bytes), m->copy));
}

}  // namespace ckpt::softcuda::driver
