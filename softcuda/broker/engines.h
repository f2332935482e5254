// SPDX-License-Identifier: Apache-2.0
//
// The device clock: when a device's kernel engine and its bus are free, in modelled time. Each
// serves the jobs of all processes one after the other. A job that was ready starts at the moment
// at which the engine became free, however late its thread woke up to reserve it.
#pragma once

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

 private:
  struct Engine {
    i64 free = 0;
    i32 owner = 0;
    // Makes `process` the owner, and returns when its job can start.
    i64 take(i32 process, i64 ready, i64 switch_cost);
  };
  Engine kernels_, bus_;
};

}  // namespace ckpt::softcuda::broker
