// SPDX-License-Identifier: Apache-2.0
//
// A module of PTX, read so that it can be rewritten: all of it must be understood.
#pragma once

#include "ptx/module.h"

namespace ckpt::remote::cuda {

struct ModuleText {
  ptx::Module declared;
  std::string_view taken_function;  // a routine takes its address; "" if there is none
  bool textures = false;            // a routine has instructions for textures or surfaces

  // The variables in .global or .const memory.
  std::vector<const ptx::Variable *> variables() const;
};

// Accepts any text. An error says what it cannot read.
Result<ModuleText> read_module(std::string_view ptx);

}  // namespace ckpt::remote::cuda
