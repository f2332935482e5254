// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "common/base/bytes.h"

namespace ckpt::tools {

// One thread places pages, and one writes to the devices of a process; neither has a use for the
// chunks of more threads.
inline constexpr unsigned kMostDecoders = 8;

// How much of its memory a program has, counted in the thread that serves it and read by others.
struct Arrival {
  // Bytes in all. A fork adds the child's copies; memory that the program gives back before its
  // contents have come is subtracted.
  std::atomic<u64> owed = 0;
  std::atomic<u64> arrived = 0;
  // Of devices: `arrived` when the first command that waited could go on. 0: none has waited.
  std::atomic<u64> at_first = 0;
};

}  // namespace ckpt::tools
