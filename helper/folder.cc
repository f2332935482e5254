// SPDX-License-Identifier: Apache-2.0
#include "helper/folder.h"

#include <sys/stat.h>

#include <filesystem>
#include <vector>

#include "helper/made_namespaces.h"
#include "helper/streams.h"

namespace ckpt::helper {

Result<> prepare_folder(const std::string &path) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
    return fail_errno("cannot create {}", path);
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != 0 ||
      (st.st_mode & (S_IWGRP | S_IWOTH)))
    return fail("{} is not a folder that only root can write to", path);
  remove_leftovers(path);
  return {};
}

void remove_leftovers(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code ec;
  for (const auto &entry : std::filesystem::directory_iterator(folder, ec))
    names.push_back(entry.path().filename());
  for (const std::string &name : names) {
    remove_dead_stream_folder(folder, name);
    remove_dead_mark(folder, name);
  }
}

}  // namespace ckpt::helper
