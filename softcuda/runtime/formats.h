// SPDX-License-Identifier: Apache-2.0
//
// Formats of elements, in the terms of both APIs.
#pragma once

#include "softcuda/runtime/state.h"

namespace ckpt::softcuda::runtime {

// False: there is no such format.
bool format_of(const cudaChannelFormatDesc &d, CUarray_format &format, unsigned &channels);
cudaChannelFormatDesc description_of(CUarray_format f, unsigned channels);

}  // namespace ckpt::softcuda::runtime
