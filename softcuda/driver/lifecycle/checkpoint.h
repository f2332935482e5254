// SPDX-License-Identifier: Apache-2.0
//
// cuCheckpointProcess* on behalf of another process.
#pragma once

#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

// Executes an order that the broker delivered, and returns the encoded answer.
Bytes answer_order(ByteView message);

}  // namespace ckpt::softcuda::driver
