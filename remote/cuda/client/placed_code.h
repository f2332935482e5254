// SPDX-License-Identifier: Apache-2.0
//
// The variables of code that were placed in the arena (remote/cuda/placing/), so that they have the
// same addresses on every server. A module's belong to its context; a library's to the first
// context that the program makes or has made, and if that ends, to the next one.
#pragma once

#include "remote/cuda/client/client.h"
#include "remote/cuda/placing/fixed_variables.h"

namespace ckpt::remote::cuda {

struct PlacedVariable {
  u64 address, bytes, context;
};

// Memory for the variables, and the code that has them there. The memory is released if the code is
// not loaded: see end_placed_code(). `context` may be 0 for a library.
Result<FixedCode> place_code(const FixedVariables &variables, u64 owner, u64 context);
// The code has been loaded: its variables get their initial values.
CUresult placed_code_is_loaded(u64 owner);
void end_placed_code(u64 owner);

// A module or library, or any other object, has ended: its variables, too.
void code_ended(u64 number);

std::optional<PlacedVariable> placed_variable(u64 owner, std::string_view name);

// Of constants that are in the arena, for a function, kernel, module or library.
u64 placed_constant_bytes(u64 number);

// For libraries.
CUresult context_of_placed_code_begins(u64 context, CUdevice device);
void context_of_placed_code_ends(u64 context);

}  // namespace ckpt::remote::cuda
