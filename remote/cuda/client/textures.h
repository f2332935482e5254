// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ckpt::remote::cuda {

// Whether the program has a texture or surface object.
bool has_textures();

}  // namespace ckpt::remote::cuda
