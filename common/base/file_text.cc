// SPDX-License-Identifier: Apache-2.0
#include "common/base/file_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "common/base/unique_fd.h"

namespace ckpt {

Result<std::string> file_text(const std::string &path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail_errno("cannot read {}", path);
  Result<std::string> text = text_behind(file.get());
  if (!text) return fail_errno("cannot read {}", path);
  return text;
}

Result<std::string> text_behind(int file) {
  std::string text;
  for (std::array<char, 1 << 14> piece;;) {
    ssize_t n = ::read(file, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot read a file");
    if (n == 0) return text;
    text.append(piece.data(), static_cast<size_t>(n));
  }
}

Result<> write_file_text(const std::string &path, std::string_view text) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return fail_errno("cannot write {}", path);
  return {};
}

}  // namespace ckpt
