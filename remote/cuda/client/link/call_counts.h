// SPDX-License-Identifier: Apache-2.0
//
// How many calls of the program went one way, and which ones waited: appended as a line of JSON to
// the file that CKPT_REMOTE_COUNTS names, when the program ends.
#pragma once

#include <array>
#include <atomic>

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

struct CallCounts {
  std::atomic<u64> one_way{0}, batches{0};
  std::array<std::atomic<u64>, 512> waited{};  // by the number of a line, or that of an Op
};

// Null if the variable is not set.
CallCounts *call_counts();
void count_waited(u16 op);

// The driver's function that a message asks for, or another name of it.
const char *name_of_call(u16 op);

}  // namespace ckpt::remote::cuda
