// SPDX-License-Identifier: Apache-2.0
//
// PTX: a module of NVIDIA's intermediate language, as text (PTX ISA).
#pragma once

#include <string_view>

#include "fatbin/facts.h"

namespace ckpt::fatbin {

// Accepts any text and skips what it does not understand. An error only if there is no .target, or
// if there are too many or too long names.
Result<CodeFacts> facts_of_ptx(std::string_view ptx);

}  // namespace ckpt::fatbin
