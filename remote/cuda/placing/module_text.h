// SPDX-License-Identifier: Apache-2.0
//
// What a module of PTX declares (PTX ISA, chapters 5 and 11): its variables, and where the bodies
// of its routines are. Views point into the text.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::remote::cuda {

// In .global or .const memory.
struct DeclaredVariable {
  std::string_view name;
  bool imported = false;  // .extern: another unit of the program defines it
  bool hidden = false;    // only this unit knows the name
  bool constant = false;
  bool managed = false;
  bool reference = false;  // to a texture, surface or sampler: it has no address
  u32 element_bytes = 0;   // of a value of its initializer
  bool floating = false;
  u64 bytes = 0;
  u64 alignment = 1;
  std::string_view initial;   // the text behind the '='; empty: all zeros
  size_t begin = 0, end = 0;  // the declaration in the text, with its ';'
};

// Places in the text.
struct Extent {
  size_t begin, end;
};

struct ModuleText {
  std::vector<DeclaredVariable> variables;
  std::vector<Extent> bodies;       // of routines, without the braces
  std::vector<Extent> sections;     // for debuggers
  std::string_view taken_function;  // a routine takes its address; "" if there is none
  bool textures = false;            // a routine has instructions for textures or surfaces
  bool samplers = false;            // which have samplers of their own
};

// Accepts any text. An error says what it cannot read.
Result<ModuleText> read_module(std::string_view ptx);

}  // namespace ckpt::remote::cuda
