// SPDX-License-Identifier: Apache-2.0
//
// The device clock: an optional model by which kernels and copies take the time that a device of
// given rates would need. Engines are reserved with the broker, so processes that share a device
// share its time. Work is still done by the host's cores: the model only makes it last longer.
// What follows what is reckoned by the works' moments (device/stream.h), and not by when threads
// woke.
#pragma once

#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::softcuda::driver {

struct Context;

struct Model {
  double compute = 0;  // PTX instructions of single threads, a second; 0: they take no time
  double memory = 0;   // bytes a second, between kernels and device memory
  double copy = 0;     // bytes a second, of memcpy
  double launch = 0;   // seconds that each kernel and each copy takes besides
  double change = 0;   // … and a kernel behind another process's (`switch`)
  double mapped = 0;   // part of its time for which a kernel on the host's memory has the bus
  double crowd = 0;    // part of itself by which the bus takes longer behind another process
};

// Lines of "compute 1e9", "memory 2e9", "copy 1e9", "launch 1e-5", and so on; '#' begins a comment.
Result<Model> read_model(const std::string &path);

// What an event records in its stream; nanoseconds.
i64 event_time();
// The stream has waited for something that has no time in the model.
void moment_is_now();
// Wait until the device would have done this, in a stream. Without a model they return at once.
// `mapped`: it worked on memory of the host.
void pass_kernel_time(Context &c, u64 instructions, u64 memory_bytes, bool mapped);
void pass_copy_time(Context &c, u64 bytes);

}  // namespace ckpt::softcuda::driver
