// SPDX-License-Identifier: Apache-2.0
//
// Everything that a checkpoint saves, at addresses at which it can be copied.
//
// The program's own mappings need not be such addresses: it may have mapped its memory without
// access, in part, or not at all, and a copy from an address without access would fail for good. So
// while this object lives, each piece of that memory is also mapped by us, in a window of ours. And
// memory that belongs to no context is copied in a context of its device: in one of the program's,
// or in the primary one, which then exists for as long as this object.
#pragma once

#include <map>
#include <vector>

#include "libckpt-cuda/memory/program_memory.h"
#include "libckpt-cuda/memory/saved_contents.h"

namespace ckpt::cuda {

class Reachable {
 public:
  Reachable() = default;
  ~Reachable();
  Reachable(const Reachable &) = delete;

  // To be called once.
  Result<std::vector<Contents>> contents();

 private:
  struct View {
    u64 base, bytes;  // mapped
    u64 taken;        // of the window
  };
  Result<> add(const ProgramMemory::Whole &whole, std::vector<Contents> &all);
  Result<CUcontext> context_on(CUdevice device);

  std::vector<View> views_;
  std::map<CUdevice, CUcontext> retained_;
};

}  // namespace ckpt::cuda
