// SPDX-License-Identifier: Apache-2.0
//
// Code whose variables the driver places (FixedVariables says why), and that is refused when it is
// loaded.
#pragma once

#include "remote/cuda/client/objects/client.h"
#include "remote/cuda/placing/fixed_variables.h"

namespace ckpt::remote::cuda {

// A managed variable that the program's host side could not reach; "": there is none. Code without
// PTX is read for that, which may take most of a second for large libraries.
std::string unreachable_managed(const fatbin::Image &image,
                                const Result<FixedVariables> &variables);
CUresult refuse_managed(const std::string &variable, const std::string &why_unplaced);

// Code that may use textures in the driver's own way (handle_table.h).
CUresult refuse_opaque(const LoadedCode &code);

}  // namespace ckpt::remote::cuda
