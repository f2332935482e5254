// SPDX-License-Identifier: Apache-2.0
#include "common/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "common/proc/file.h"

namespace ckpt {

UniqueFd open_regular(const std::string &path) {
  UniqueFd found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat st {};
  if (!found || ::fstat(found.get(), &st) != 0 || !S_ISREG(st.st_mode)) return {};
  std::string same = proc::fd_path(proc::kSelf, found.get());
  return UniqueFd(::open(same.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

}  // namespace ckpt
