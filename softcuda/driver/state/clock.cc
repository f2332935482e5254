// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/state/clock.h"

#include <time.h>

#include <algorithm>

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

}  // namespace

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

// On the device each byte is read and written, at the rate that kernels have, and in their place: a
// copy that fills the memory's rate leaves them none.
void spend_copy_time(Context &c, u64 bytes, bool on_device) {
  const std::optional<Model> &m = process().model;
  if (!m) return;
  if (on_device) {
    double work = m->launch + time_of(2 * static_cast<double>(bytes), m->memory);
    return spend(c, {0, nanoseconds(work), 0, 0, 0});
  }
  double bus = m->launch + time_of(static_cast<double>(bytes), m->copy);
  spend(c, {0, 0, 0, nanoseconds(bus), nanoseconds(bus * m->crowd)});
}

}  // namespace ckpt::softcuda::driver
