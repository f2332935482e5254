// SPDX-License-Identifier: Apache-2.0
//
// The process that still copies what this program's device memory held at its last checkpoint. Its
// device copies (driver-checkpoint/owner/device_copies.h) take memory until it ends. A program that
// needs that memory waits: without the checkpoint its allocation would have succeeded.
#pragma once

#include "common/base/unique_fd.h"

namespace ckpt::cuda {

// The end of the process shows at `connection`. Only while no call is inside the gate.
void set_copier(UniqueFd connection);
// Before a checkpoint, which no connection may outlive, and in a forked child. Async-signal-safe.
void forget_copier();
// From any thread inside the gate, if memory is short. True: that process has ended since the last
// checkpoint, so there may be more. False: there was none, or it does not end.
bool wait_for_copier();

}  // namespace ckpt::cuda
