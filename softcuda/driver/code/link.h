// SPDX-License-Identifier: Apache-2.0
//
// The image that cuLinkComplete returns: one text that holds all PTX inputs. A program may copy it,
// store it in a file, and load it when the linker's state is destroyed.
#pragma once

#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

std::string linked_image(const std::vector<std::string> &ptx);
// The inputs of a linked image; of any other text, the text itself.
std::vector<std::string> linked_parts(std::string_view text);

}  // namespace ckpt::softcuda::driver
