// SPDX-License-Identifier: Apache-2.0
//
// The exported symbols: each is a jump to a target that can change while the program runs.
#pragma once

#include "libckpt-cuda/entry/entries.h"

namespace ckpt::cuda {

// The jump of an entry that is not in cuda.api, for programs that ask for its address.
void *jump_to(Id id);
// From now on the entries that are not in cuda.api fail too, except those that need no device. The
// driver, in the middle of its own checkpoint, would block their callers forever.
void lose_targets();

}  // namespace ckpt::cuda
