// SPDX-License-Identifier: Apache-2.0
//
// Arrays, and mipmapped arrays, whose levels are arrays. They are made again on another server as
// other objects are; what they hold is moved like device memory (contents.cc).
#pragma once

#include "remote/cuda/array_boxes.h"
#include "remote/cuda/client/client.h"

namespace ckpt::remote::cuda {

// Whether the array lives.
bool is_array(u64 number);
struct LiveArray {
  u64 number, context;
  ArrayShape shape;
};
std::vector<LiveArray> live_arrays();

}  // namespace ckpt::remote::cuda
