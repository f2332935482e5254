// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "common/base/bytes.h"

namespace ckpt::cuda {

// The number of an allocation, unique among all that this library serves
// (CU_POINTER_ATTRIBUTE_BUFFER_ID).
inline u64 next_buffer_id() {
  static std::atomic<u64> next{1};
  return next++;
}

}  // namespace ckpt::cuda
