// SPDX-License-Identifier: Apache-2.0
//
// "did you mean": the word that was probably meant by a misspelt option, command, value or device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ckpt::tools {

// The nearest of `words`; empty if none is near.
std::string nearest(std::string_view typed, const std::vector<std::string> &words);

// What an error ends with: `; did you mean "WORD"?`, or nothing if no word is near.
std::string did_you_mean(std::string_view typed, const std::vector<std::string> &words);

}  // namespace ckpt::tools
