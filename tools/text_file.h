// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/file_text.h"

namespace ckpt::tools {

// A whole file that a user has named.
inline Result<std::string> contents_of(const std::string &path) {
  Result<std::string> text = file_text(path);
  if (text || !text.error().hint.empty()) return text;
  return fail_with_hint(std::move(text).error().what, "check the name");
}

}  // namespace ckpt::tools
