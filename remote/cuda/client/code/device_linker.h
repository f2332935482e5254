// SPDX-License-Identifier: Apache-2.0
//
// cuLink*: the driver's linker. It keeps the inputs in the program, and sends them all when the
// link is completed; so a program can be moved while it has an incomplete link.
//
// A linked image is a cubin. It fits one type of chip, and the driver places its variables. If it
// was made from one text of PTX, as numba does, that text is loaded instead: then it can be moved
// like other PTX.
#pragma once

#include "remote/cuda/client/objects/loaded_code.h"

namespace ckpt::remote::cuda {

// The text to be loaded in place of an image that the linker has returned.
std::optional<CodePart> text_behind(const fatbin::Image &image);

}  // namespace ckpt::remote::cuda
