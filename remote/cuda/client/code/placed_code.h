// SPDX-License-Identifier: Apache-2.0
//
// The variables of device code that lie in the arena (remote/cuda/placing/), so that they have the
// same addresses on every server. They get their initial values before the first launch, or before
// the program gets an address. The variables of a module belong to the module's context. Those of a
// library belong to the context in which they get their values; when it ends, the next context in
// which they are used gets them with their initial values.
//
// A library that is loaded once for each device (code_versions.h) has its managed variables once
// for all of them: one version, the home, has them, and the others name the same addresses.
#pragma once

#include "remote/cuda/client/objects/client.h"
#include "remote/cuda/placing/fixed_variables.h"

namespace ckpt::remote::cuda {

struct PlacedVariable {
  u64 address, bytes, context;
  bool managed;
};

// Allocates memory for the variables, and returns the code that names their addresses and looks up
// the handles of textures (handle_table.h). `owner` is the number of the module or library. The
// caller calls end_placed_code() if the code is not loaded. `device`: of a library; a module is of
// the current context's device. `home`: the version that has the managed variables, if it is
// another one.
Result<FixedCode> place_code(const FixedVariables &variables, u64 owner, CUdevice device,
                             u64 home = 0);
void end_placed_code(u64 owner);

// An object of any kind has ended. If it was a module or library, so have its variables.
void code_ended(u64 number);

// Called before kernels use variables of the current context.
CUresult initialise_placed_variables();
// The context has ended, and the variables of libraries in it.
void end_placed_variables_of(u64 context);

std::optional<PlacedVariable> placed_variable(u64 owner, std::string_view name);

// Of constants that are in the arena, for a function, kernel, module or library.
u64 placed_constant_bytes(u64 number);

}  // namespace ckpt::remote::cuda
