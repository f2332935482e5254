// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/state/clock.h"

#include <time.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "softcuda/device/stream.h"
#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {
namespace {

constexpr double kMaxSeconds = 600;

double time_of(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

i64 nanoseconds(double seconds) { return static_cast<i64>(std::min(seconds, kMaxSeconds) * 1e9); }

void spend(Context &c, broker::Job job) {
  job.since = model_time();
  Result<i64> end = client().reserve(static_cast<u32>(c.device->index), job);
  if (!end) return set_model_time_to_now();
  model_time() = *end;
  timespec t{*end / 1'000'000'000, *end % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

double *field(Model &m, const std::string &name) {
  return name == "compute"  ? &m.compute
         : name == "memory" ? &m.memory
         : name == "copy"   ? &m.copy
         : name == "launch" ? &m.launch
         : name == "switch" ? &m.switch_cost
         : name == "mapped" ? &m.mapped
         : name == "crowd"  ? &m.crowd
                            : nullptr;
}

}  // namespace

Result<Model> read_model(const std::string &path) {
  std::ifstream in(path);
  if (!in)
    return fail_with_hint(fmt::format("cannot read the device model {}", path),
                          "CKPT_SOFTCUDA_MODEL must name a readable file");
  Model m;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, rest;
    double value = 0;
    if (!(words >> name)) continue;
    double *at = field(m, name);
    if (at == nullptr || !(words >> value) || value < 0 || (words >> rest))
      return fail_with_hint(
          fmt::format("{}:{}: '{}' is invalid", path, number, line),
          "valid lines are: compute RATE, memory RATE, copy RATE, launch SECONDS, switch "
          "SECONDS, mapped PART, crowd PART");
    *at = value;
  }
  return m;
}

i64 event_time() { return process().model ? model_time() : device_now(); }

void set_model_time_to_now() { model_time() = device_now(); }

// Arithmetic and memory accesses overlap, so the slower of the two counts.
void spend_kernel_time(Context &c, u64 instructions, u64 memory_bytes, bool mapped) {
  const std::optional<Model> &m = process().model;
  if (!m) return;
  double work = m->launch + std::max(time_of(static_cast<double>(instructions), m->compute),
                                     time_of(static_cast<double>(memory_bytes), m->memory));
  double bus = mapped ? work * m->mapped : 0;
  spend(c, {0, nanoseconds(work), nanoseconds(m->switch_cost), nanoseconds(bus),
            nanoseconds(bus * m->crowd)});
}

void spend_copy_time(Context &c, u64 bytes) {
  const std::optional<Model> &m = process().model;
  if (!m) return;
  double bus = m->launch + time_of(static_cast<double>(bytes), m->copy);
  spend(c, {0, 0, 0, nanoseconds(bus), nanoseconds(bus * m->crowd)});
}

}  // namespace ckpt::softcuda::driver
