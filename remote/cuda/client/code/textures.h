// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

// Whether the object can be made again on another server: its array or memory still exists. If not,
// no kernel may use it, and the program may only destroy it.
bool texture_can_be_made(u64 cell);
// An object of any kind has ended, perhaps with its context.
void texture_ended(u64 number);
// Why the program's objects do not move; empty: they do.
std::string texture_obstacle();

}  // namespace ckpt::remote::cuda
