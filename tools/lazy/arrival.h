// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "common/base/bytes.h"

namespace ckpt::tools {

// How much of its memory a program has, counted in the thread that serves it and read by others.
struct Arrival {
  // Bytes in all. A fork adds the child's copies; memory that the program gives back before its
  // contents have come is subtracted.
  std::atomic<u64> owed = 0;
  std::atomic<u64> arrived = 0;
};

}  // namespace ckpt::tools
