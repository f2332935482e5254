// SPDX-License-Identifier: Apache-2.0
//
// A module that the device loads. It keeps the text that its declarations point into, and what
// cannot be read is an error.
#pragma once

#include <memory>
#include <string>

#include "softcuda/ptx/body.h"

namespace ckpt::softcuda::ptx {

struct LoadedModule : Module {
  std::string text;
};

// Errors name the line. The text ends at its first NUL.
Result<std::unique_ptr<LoadedModule>> parse_module(std::string text);

}  // namespace ckpt::softcuda::ptx
