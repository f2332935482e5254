// SPDX-License-Identifier: Apache-2.0
//
// Device functions that the software device itself provides.
#pragma once

#include "softcuda/vm/op.h"

namespace ckpt::softcuda::vm {

// vprintf, malloc, free, __assertfail or one of the device runtime (device_runtime.h); nullptr for
// any other name.
Builtin builtin_named(std::string_view name);

}  // namespace ckpt::softcuda::vm
