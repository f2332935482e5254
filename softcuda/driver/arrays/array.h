// SPDX-License-Identifier: Apache-2.0
//
// What arrays, mipmapped arrays, and textures and surfaces on them share.
#pragma once

#include "softcuda/driver/state/process.h"
#include "softcuda/vm/texture.h"

namespace ckpt::softcuda::driver {

// No value: the format is not supported.
std::optional<vm::Channel> channel_of(CUarray_format f);

// Whether the device can have an array, or a mipmapped array, of this description.
CUresult check_description(const Context &c, const CUDA_ARRAY3D_DESCRIPTOR &d, bool mipmapped);
// array_limits.cc
CUresult check_extents(const Context &c, const CUDA_ARRAY3D_DESCRIPTOR &d, bool mipmapped);

// An array of this description at `base`.
std::unique_ptr<Array> array_at(Context *c, const CUDA_ARRAY3D_DESCRIPTOR &d, u64 base);
u64 bytes_of(const Array &a);

// Destroys all arrays and mipmapped arrays of a context, before the context's memory is released.
void end_arrays(const Context *c);
// Textures and surfaces on an array that ends are no longer valid for kernels (texture.cc).
void end_textures_of(const Array &a);

}  // namespace ckpt::softcuda::driver
