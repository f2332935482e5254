// SPDX-License-Identifier: Apache-2.0
#include "softcuda/broker/engines.h"

namespace ckpt::softcuda::broker {
namespace {

// As many streams wait for a device at a time.
constexpr size_t kMostNotCounted = 4096;

}  // namespace

i64 Engines::Engine::take(i32 process, i64 ready, i64 switch_cost) {
  bool switches = owner != 0 && owner != process;
  owner = process;
  return std::max(ready, free) + (switches ? switch_cost : 0);
}

// A kernel that waits for the bus keeps the kernel engine.
i64 Engines::serve(i32 process, const Job &job) {
  i64 begin = job.since;
  kernels_.served += job.kernel;
  bus_.served += job.bus;
  if (job.kernel > 0) begin = kernels_.take(process, begin, job.switch_cost);
  i64 end = begin + job.kernel;
  if (job.kernel > 0) {
    count_ended(not_counted_.size() < kMostNotCounted ? job.since : end);
    not_counted_.push_back({process, begin, end});
  }
  if (job.bus > 0) {
    bus_.free = bus_.take(process, begin, job.bus_switch_cost) + job.bus;
    end = std::max(end, bus_.free);
  }
  if (job.kernel > 0) kernels_.free = end;
  return end;
}

void Engines::count_ended(i64 now) {
  for (; !not_counted_.empty() && not_counted_.front().end <= now; not_counted_.pop_front())
    counted_[not_counted_.front().process] += not_counted_.front().end - not_counted_.front().begin;
}

std::map<i32, i64> Engines::kernel_times(i64 now) {
  count_ended(now);
  std::map<i32, i64> times = counted_;
  for (const Kernel &k : not_counted_)
    if (k.begin < now) times[k.process] += now - k.begin;
  return times;
}

void Engines::forget(i32 process) {
  counted_.erase(process);
  std::erase_if(not_counted_, [&](const Kernel &k) { return k.process == process; });
}

}  // namespace ckpt::softcuda::broker
