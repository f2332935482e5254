// SPDX-License-Identifier: Apache-2.0
//
// The facts of a module of PTX, NVIDIA's intermediate language, which is text.
#pragma once

#include <string_view>

#include "fatbin/facts.h"

namespace ckpt::fatbin {

// Any text. A declaration of a variable that cannot be read is left out. An error if a kernel's
// cannot be read, if there is no .target, or if there are too many or too long names.
Result<CodeFacts> facts_of_ptx(std::string_view ptx);

}  // namespace ckpt::fatbin
