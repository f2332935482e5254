// SPDX-License-Identifier: Apache-2.0
//
// Arrays, and texture and surface objects. Kernels get an object as the driver made it, so it
// cannot be made again elsewhere: a program with such objects, or with arrays, does not move.
#pragma once

#include "remote/cuda/client/client.h"

namespace ckpt::remote::cuda {

// Whether the array lives.
bool is_array(u64 number);
// Why the program cannot be moved; empty: nothing here is in the way.
std::string array_obstacle();

}  // namespace ckpt::remote::cuda
