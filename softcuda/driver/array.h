// SPDX-License-Identifier: Apache-2.0
//
// What arrays, and textures and surfaces on them, share.
#pragma once

#include "softcuda/driver/process.h"
#include "softcuda/vm/texture.h"

namespace ckpt::softcuda::driver {

// No value: the format is not supported.
std::optional<vm::Channel> channel_of(CUarray_format f);

}  // namespace ckpt::softcuda::driver
