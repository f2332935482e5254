// SPDX-License-Identifier: Apache-2.0
//
// The device clock: when a device's engine for kernels and its bus are free, in modelled time. Each
// does one thing after the other, whichever process it comes from, and what was ready begins at the
// very moment at which the engine became free, however late its thread woke up to ask.
#pragma once

#include "common/base/bytes.h"

namespace ckpt::softcuda::broker {

// What a kernel or a copy takes of a device; nanoseconds. A copy has no kernel, most kernels no
// bus.
struct Job {
  i64 since = 0;       // ready since: CLOCK_MONOTONIC
  i64 kernel = 0;      // of the engine for kernels
  i64 change = 0;      // … and before that, if another process had it
  i64 bus = 0;         // of the bus, from the kernel's beginning on
  i64 bus_change = 0;  // … and besides, if another process had it
};

class Engines {
 public:
  // When the job is over. `who`: of which process it is.
  i64 serve(i32 who, const Job &job);

 private:
  struct Engine {
    i64 free = 0;
    i32 owner = 0;
    // When it can begin.
    i64 take(i32 who, i64 ready, i64 change);
  };
  Engine kernels_, bus_;
};

}  // namespace ckpt::softcuda::broker
