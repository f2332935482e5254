// SPDX-License-Identifier: Apache-2.0
#include "tools/session/session_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ckpt::tools {

namespace fs = std::filesystem;

void SessionFiles::write(std::string_view name, const std::string &content) {
  contents_[std::string(name)] = content;
  std::ofstream(path_of(std::string(name))) << content;
}

void SessionFiles::write_missing() const {
  for (const auto &[name, content] : contents_)
    if (::access(path_of(name).c_str(), F_OK) != 0) std::ofstream(path_of(name)) << content;
}

void SessionFiles::renew() const {
  write_missing();
  std::error_code ec;
  ::utimensat(AT_FDCWD, folder_.c_str(), nullptr, 0);
  for (const fs::directory_entry &e : fs::directory_iterator(folder_, ec))
    ::utimensat(AT_FDCWD, e.path().c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

}  // namespace ckpt::tools
