// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/bytes.h"

namespace ckpt {

// Bytes of host memory that programs can get without swapping (MemAvailable, proc(5)). 0: unknown.
u64 available_memory();

}  // namespace ckpt
