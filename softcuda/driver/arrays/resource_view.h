// SPDX-License-Identifier: Apache-2.0
//
// Resource views: a texture that shows some levels or layers of an array, or its elements in
// another format (CUDA driver API, cuTexObjectCreate).
#pragma once

#include "softcuda/driver/arrays/array.h"

namespace ckpt::softcuda::driver {

// Of the array or mipmapped array. No value: it is neither.
std::optional<CUDA_ARRAY3D_DESCRIPTOR> description_of(const CUDA_RESOURCE_DESC &r);

// `t` shows the whole resource, and then the view of it.
CUresult apply_view(const CUDA_RESOURCE_DESC &r, const CUDA_RESOURCE_VIEW_DESC &v, vm::Texture &t);

}  // namespace ckpt::softcuda::driver
