// SPDX-License-Identifier: Apache-2.0
//
// The parts of a module that the rewriting of PTX needs: what its routines read of the grid, and
// what they call.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "ptx/module.h"

namespace ckpt::slicing {

// Special registers that slicing changes (PTX ISA, section 10).
enum class GridRegister : u8 { Block, Blocks };  // %ctaid, %nctaid

// An occurrence of such a register in the text.
struct GridRead {
  size_t at = 0;  // offset in the text, in bytes
  size_t bytes = 0;
  GridRegister what{};
  u8 axis = 0;  // 0 to 2: x, y, z
};

// What a kernel or function does with the grid. Views point into the text of the module.
struct Routine {
  const ptx::Function *declared = nullptr;  // of the module
  std::vector<GridRead> reads;
  std::vector<std::string_view> calls;  // sorted, each once
  bool calls_pointer = false;
  // Why the routine must run whole: it reads a value that a slice cannot imitate, or needs all
  // blocks at once. Null: no reason was found.
  const char *whole = nullptr;
  // Reads memory in a way that sees the writes of other blocks, so that it may wait for them.
  bool may_wait = false;

  bool is_kernel() const { return declared->entry; }
  bool has_body() const { return declared->defined; }
  std::string_view name() const { return declared->name; }
};

struct Outline {
  unsigned version = 0;  // of the PTX ISA, 83 for 8.3
  unsigned target = 0;   // 90 for sm_90a
  std::vector<Routine> routines;
  // The module starts kernels itself, so their parameters must stay as they are.
  bool launches = false;
};

// Fails if a routine cannot be read. `module` was read from `ptx`, and must outlive the outline.
Result<Outline> outline_of(std::string_view ptx, const ptx::Module &module);

}  // namespace ckpt::slicing
