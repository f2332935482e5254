// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/kept_files.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <filesystem>
#include <optional>
#include <set>

#include "tools/dump/file_contents.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/file_writers.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

// They are read while the program is stopped.
constexpr u64 kMostBytes = 16u << 20, kMostBytesOfAll = 64u << 20;

// The size of a file on a disk, or nothing if the file is of another kind.
std::optional<u64> size_on_disk(const std::string &path, const ProcMapping &m) {
  struct stat st {};
  struct statfs fs {};
  bool on_disk = ::lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == m.inode &&
                 ::statfs(path.c_str(), &fs) == 0 && static_cast<long>(fs.f_type) != TMPFS_MAGIC;
  return on_disk ? std::optional(static_cast<u64>(st.st_size)) : std::nullopt;
}

json describe_folder(const std::string &path) {
  struct stat st {};
  std::string folder = std::filesystem::path(path).parent_path();
  if (::stat(folder.c_str(), &st) != 0) st.st_mode = 0700;
  return {{"mode", st.st_mode & 07777}, {"uid", st.st_uid}, {"gid", st.st_gid}};
}

}  // namespace

Result<json> save_kept_files(const Target &target, storage::ImageWriter &image) {
  json list = json::array();
  std::set<std::string> seen;
  u64 left = kMostBytesOfAll;
  for (const Process &p : target.processes)
    for (const ProcMapping &m : mappings_of(p.pid)) {
      if (!m.path.starts_with('/') || seen.contains(m.path) || !can_write(p.pid, m)) continue;
      seen.insert(m.path);
      std::optional<u64> size = size_on_disk(target.files + m.path, m);
      if (!size || *size > std::min(left, kMostBytes)) continue;
      UniqueFd fd = open_mapped(p.pid, m, target.files);
      if (!fd) continue;
      left -= *size;
      CKPT_TRY(json file,
               save_contents(image, fmt::format("kept-files/{}", list.size()), fd.get()));
      file["path"] = m.path;
      file["folder"] = describe_folder(target.files + m.path);
      list.push_back(std::move(file));
    }
  return list;
}

}  // namespace ckpt::tools
