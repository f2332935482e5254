// SPDX-License-Identifier: Apache-2.0
//
// The device clock: when a device's kernel engine and its bus are free, in modelled time. Each
// serves the jobs of all processes one after the other. A job that was ready starts at the moment
// at which the engine became free, however late its thread woke up to reserve it.
#pragma once

#include <algorithm>
#include <deque>
#include <map>

#include "common/base/bytes.h"

namespace ckpt::softcuda::broker {

// The time that a kernel or a copy needs; nanoseconds. A copy has no kernel time, most kernels have
// no bus time.
struct Job {
  i64 since = 0;            // ready since; CLOCK_MONOTONIC
  i64 kernel = 0;           // on the kernel engine
  i64 switch_cost = 0;      // before that, if another process had the engine
  i64 bus = 0;              // on the bus, from the start of the kernel
  i64 bus_switch_cost = 0;  // before that, if another process had the bus
};

class Engines {
 public:
  // Returns the time at which the job of a process (a PID) ends.
  i64 serve(i32 process, const Job &job);
  // For how long kernels have run until `now`, and the bus was used; nanoseconds.
  i64 kernel_time(i64 now) const { return kernels_.busy_until(now); }
  i64 bus_time(i64 now) const { return bus_.busy_until(now); }
  // The same for the kernels of each process that has had one.
  std::map<i32, i64> kernel_times(i64 now);
  void forget(i32 process);
  bool runs_kernel(i64 now) const { return kernels_.free > now; }
  bool uses_bus(i64 now) const { return bus_.free > now; }

 private:
  struct Engine {
    i64 free = 0;
    i32 owner = 0;
    i64 served = 0;  // the sum of its jobs
    // What was reserved and is still to come does not count.
    i64 busy_until(i64 now) const {
      return std::max<i64>(0, served - std::max<i64>(0, free - now));
    }
    // Makes `process` the owner, and returns when its job can start.
    i64 take(i32 process, i64 ready, i64 switch_cost);
  };
  // A kernel that may not have ended yet.
  struct Kernel {
    i32 process = 0;
    i64 begin = 0, end = 0;
  };
  void count_ended(i64 now);

  Engine kernels_, bus_;
  std::deque<Kernel> not_counted_;  // one after the other
  std::map<i32, i64> counted_;      // nanoseconds, by process
};

}  // namespace ckpt::softcuda::broker
