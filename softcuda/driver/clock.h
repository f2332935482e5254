// SPDX-License-Identifier: Apache-2.0
//
// The device clock: an optional model by which kernels and copies take the time that a device of
// given rates would need. Engines are reserved with the broker, so processes that share a device
// share its time. Work is still done by the host's cores: the model only makes it last longer.
#pragma once

#include <string>

#include "common/bytes.h"
#include "common/result.h"

namespace ckpt::softcuda::driver {

struct Context;

struct Model {
  double compute = 0;  // PTX instructions of single threads, a second; 0: they take no time
  double memory = 0;   // bytes a second, between kernels and device memory
  double copy = 0;     // bytes a second, of memcpy
  double launch = 0;   // seconds that each kernel and each copy takes besides
};

// Lines of "compute 1e9", "memory 2e9", "copy 1e9", "launch 1e-5"; '#' begins a comment.
Result<Model> read_model(const std::string &path);

// CLOCK_MONOTONIC in nanoseconds.
i64 device_now();
// Wait until the device would have done this. Without a model they return at once.
void pass_kernel_time(Context &c, i64 since, u64 instructions, u64 memory_bytes);
void pass_copy_time(Context &c, i64 since, u64 bytes);

}  // namespace ckpt::softcuda::driver
