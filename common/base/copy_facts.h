// SPDX-License-Identifier: Apache-2.0
//
// What a program that ckpt-start has started from a template can learn about itself. The keeper
// writes it into a file of the session's folder, and the library in the program reads it there
// (ckpt_copy_info() and ckpt_setting() in ckpt.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/bytes.h"

namespace ckpt {

struct CopyFacts {
  u32 number = 0;      // from 1 on
  u32 copies = 0;      // that were started together
  u64 generation = 0;  // 1: a copy of the program, 2: a copy of a copy …
  std::map<std::string, std::string> settings;

  // Lines, with a setting's value as the rest of its line.
  std::string text() const;
  static std::optional<CopyFacts> parse(std::string_view text);
};

// The file's name in the session's folder.
inline constexpr std::string_view kCopyFile = "copy";

// NAME=VALUE: a name of letters, digits and underscores, and a value in one line.
std::optional<std::pair<std::string, std::string>> parse_setting(std::string_view text);

}  // namespace ckpt
