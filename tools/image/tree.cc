// SPDX-License-Identifier: Apache-2.0
#include "tools/image/tree.h"

#include <algorithm>
#include <filesystem>

#include "common/base/log.h"
#include "storage/format/format.h"
#include "storage/io/partial_folder.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path &path) {
  std::error_code ec;
  return storage::is_partial_name(path.filename().string()) ||
         fs::exists(path / storage::kIndexFile, ec) || fs::exists(path / storage::kChunksFile, ec);
}

Result<std::vector<std::string>> folders_in(const std::string &folder) {
  std::vector<std::string> all;
  std::error_code ec;
  fs::directory_iterator entries(folder, ec);
  for (; !ec && entries != fs::directory_iterator(); entries.increment(ec)) {
    std::error_code ignored;
    const fs::path &path = entries->path();
    if (fs::symlink_status(path, ignored).type() == fs::file_type::directory && !is_image(path))
      all.push_back(path.string());
  }
  if (!ec) return all;
  return fail_with_hint(fmt::format("cannot read the folder {}: {}", folder, ec.message()),
                        "name the folder that contains the images");
}

}  // namespace

Result<std::vector<std::string>> folders_of_tree(const std::string &top) {
  std::vector<std::string> all{top};
  for (size_t i = 0; i < all.size(); i++) {
    Result<std::vector<std::string>> below = folders_in(all[i]);
    if (!below && i == 0) return below;
    if (!below) log::warn("{}", below.error().what);
    if (below) all.insert(all.end(), below->begin(), below->end());
  }
  std::ranges::sort(all);
  return all;
}

}  // namespace ckpt::tools
