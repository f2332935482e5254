// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "common/base/io.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// Replaces a file by one that others may read, whole: a reader sees the old text or the new one.
// Its folder is ours.
inline Result<> replace_small_file(const std::string &path, const std::string &text) {
  std::string next = path + ".new";
  UniqueFd file(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file) return fail_errno("cannot write {}", next);
  CKPT_CHECK(write_all(file.get(), view(text)));
  if (::rename(next.c_str(), path.c_str()) < 0) return fail_errno("cannot rename {}", next);
  return {};
}

}  // namespace ckpt::tools
