// SPDX-License-Identifier: Apache-2.0
//
// How many bytes a program and its children have copied between host and devices, in a file that
// the environment variable names, or in a memfd as /proc/PID/fd/N, which can be sealed against
// shrinking. It is mapped only if it has the size of CopyCounts and begins with kMagic.
#pragma once

#include <atomic>

#include "common/base/bytes.h"

namespace ckpt {

struct CopyCounts {
  static constexpr const char *kVariable = "CKPT_COPY_COUNTS";
  static constexpr u64 kMagic = 0x31'73'65'69'70'6f'63'ff;

  u64 magic = kMagic;
  std::atomic<u64> to_device{0}, to_host{0};
};
static_assert(sizeof(CopyCounts) == 24 && std::atomic<u64>::is_always_lock_free);

// Maps `path`, which is the variable's value; null, with a warning, if it is something else.
CopyCounts *map_copy_counts(const char *path);
// Null if the variable is not set. A forked child inherits the mapping.
CopyCounts *open_copy_counts();

// Costs a test of two words once it was called.
inline CopyCounts *copy_counts() {
  static CopyCounts *const counts = open_copy_counts();
  return counts;
}

}  // namespace ckpt
