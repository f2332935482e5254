// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace ckpt {

// The path of an executable as execvp(3) finds it; empty if it finds none.
inline std::string find_program(const std::string &name) {
  if (name.find('/') != name.npos) return name;
  const char *path = std::getenv("PATH");
  std::string folders = path == nullptr ? "/usr/bin:/bin" : path;
  for (size_t at = 0; at <= folders.size();) {
    size_t end = std::min(folders.find(':', at), folders.size());
    std::string full = folders.substr(at, end - at) + "/" + name;
    if (::access(full.c_str(), X_OK) == 0) return full;
    at = end + 1;
  }
  return {};
}

}  // namespace ckpt
