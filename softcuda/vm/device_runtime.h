// SPDX-License-Identifier: Apache-2.0
//
// The device runtime: kernels that launch kernels.
#pragma once

#include <string_view>

#include "softcuda/vm/op.h"

namespace ckpt::softcuda::vm {

// A function of NVIDIA's libcudadevrt; nullptr for any other name.
Builtin device_runtime_named(std::string_view name);

}  // namespace ckpt::softcuda::vm
