// SPDX-License-Identifier: Apache-2.0
//
// The device clock: an optional model that makes kernels and copies take the time that a device of
// given rates would need. The broker reserves the engines, so processes that share a device share
// its time. The host's cores still do the work; the model only makes it last longer. Intervals are
// computed in model time (device/stream.h), so late threads do not distort them.
#pragma once

#include "common/base/bytes.h"
#include "softcuda/device/model.h"

namespace ckpt::softcuda::driver {

struct Context;

// The time stamp of an event, in nanoseconds: model time if there is a model.
i64 event_time();
// After a wait that the model knows nothing of, such as a host function.
void set_model_time_to_now();
// Wait, on a stream's thread, until the modelled device has done this work. Without a model they
// return at once. `mapped`: the kernel accessed pinned memory of the host.
// `on_device`: the copy reads and writes memory of this device only.
void spend_kernel_time(Context &c, u64 instructions, u64 memory_bytes, bool mapped);
void spend_copy_time(Context &c, u64 bytes, bool on_device);

}  // namespace ckpt::softcuda::driver
