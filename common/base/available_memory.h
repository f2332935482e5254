// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/bytes.h"

namespace ckpt {

// Bytes of host memory that this process can get without swapping (MemAvailable, proc(5)), and
// within the limits of its control groups. 0: unknown.
u64 available_memory();

}  // namespace ckpt
