// SPDX-License-Identifier: Apache-2.0
//
// Which entries of an image are examined, and for what.
#pragma once

#include <vector>

#include "fatbin/image.h"

namespace ckpt::fatbin {

// What an entry is examined for.
enum class Scope : u8 {
  Nothing,       // the linked program contains what is left of it
  Instructions,  // only for what a cubin does not reveal: textures and surfaces
  AllButHeap,    // a cubin for the same target decides about the heap
  All,
};

// For each container, the scope of each of its entries.
std::vector<std::vector<Scope>> scopes_of(const Image &image);

}  // namespace ckpt::fatbin
