// SPDX-License-Identifier: Apache-2.0
//
// The parts of a module that the rewriting of PTX needs: where its routines begin and end, what
// they read of the grid, and what they call. The rest of the text is skipped.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

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

// A kernel (.entry) or function (.func). Views point into the text of the module.
struct Routine {
  std::string_view name;
  bool kernel = false;
  bool has_body = false;
  size_t begin = 0;     // of the first token of its declaration
  size_t name_end = 0;  // behind the name
  size_t list_end = 0;  // the ')' of a kernel's parameters; 0: it has no list
  bool list_empty = true;
  size_t body_begin = 0;  // behind the '{'

  std::vector<GridRead> reads;
  std::vector<std::string_view> calls;  // sorted, each once
  bool calls_pointer = false;
  // Why the routine must run whole: it reads a value that a slice cannot imitate, or needs all
  // blocks at once. Null: no reason was found.
  const char *whole = nullptr;
  // Reads memory in a way that sees the writes of other blocks, so that it may wait for them.
  bool may_wait = false;
};

struct Outline {
  unsigned version = 0;  // of the PTX ISA, 83 for 8.3
  unsigned target = 0;   // 90 for sm_90a
  size_t first = 0;      // where the first declaration behind the header begins
  std::vector<Routine> routines;
  // The module starts kernels itself, so their parameters must stay as they are.
  bool launches = false;
};

// Accepts any text and skips what it cannot parse. Fails if the text is not PTX, or has more
// routines than kMaxRoutines.
inline constexpr size_t kMaxRoutines = 1u << 17;
Result<Outline> outline_of(std::string_view ptx);

}  // namespace ckpt::slicing
