// SPDX-License-Identifier: Apache-2.0
//
// Rewrites PTX so that a kernel's grid can be launched piece by piece, without changing the
// program:
//
//   CKPT_TRY(slicing::Rewritten code, slicing::rewrite(ptx));
//   load(code.ptx);
//   for (box of boxes.h) launch(kernel, box.extent, parameters + SliceArgument{box.base, grid});
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::slicing {

using Dim = std::array<u32, 3>;

// The value of the parameter that is added behind a kernel's own.
struct SliceArgument {
  Dim base;  // the number of the slice's first block
  Dim grid;  // the blocks of the whole grid
};
static_assert(sizeof(SliceArgument) == 24);

struct Kernel {
  std::string name;
  // Whether the parameter was added: such a kernel must be launched with it, also where it runs
  // whole (then with base 0).
  bool takes_slice = false;
  u32 parameters = 0;      // the number that the program knows
  u32 slice_offset = 0;    // of the added one, in the buffer of parameters, in bytes
  bool may_wait = false;   // it may wait for another block while that runs
  bool uses_copy = false;  // 24 bytes of shared memory are added
  std::string whole;       // why it must run whole; empty: it can be sliced
};

struct Rewritten {
  std::string ptx;
  std::vector<Kernel> kernels;
};

// Any text. An error says why the module must be loaded as it is, and all its kernels run whole.
Result<Rewritten> rewrite(std::string_view ptx);

}  // namespace ckpt::slicing
