// SPDX-License-Identifier: Apache-2.0
//
// Arrays and mipmapped arrays. Each level of a mipmapped array is an array. After a move, they are
// created again like other objects, and their contents are moved like device memory (contents.cc).
#pragma once

#include "remote/cuda/array_boxes.h"
#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

// Whether the array lives.
bool is_array(u64 number);
struct LiveArray {
  u64 number, context;
  api::ArrayShape shape;
};
std::vector<LiveArray> live_arrays();

}  // namespace ckpt::remote::cuda
