// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// A whole file that a user has named, or one of /proc and /sys.
inline Result<std::string> contents_of(const std::string &path) {
  auto failed = [&] {
    return fail_with_hint(fmt::format("cannot read {}: {}", path, std::strerror(errno)),
                          "check the name");
  };
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return failed();
  std::string text;
  for (std::array<char, 1 << 14> piece;;) {
    ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed();
    if (n == 0) return text;
    text.append(piece.data(), static_cast<size_t>(n));
  }
}

}  // namespace ckpt::tools
