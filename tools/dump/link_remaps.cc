// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/link_remaps.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDeleted = " (deleted)";
constexpr std::string_view kName = "link_remap.";

using FileId = std::pair<u64, u64>;  // device, inode
using FilesByFolder = std::map<std::string, std::set<FileId>>;

void add_unlinked(FilesByFolder &files, const std::string &path, const std::string &link) {
  struct stat st {};
  if (!path.starts_with('/') || !path.ends_with(kDeleted) || ::stat(link.c_str(), &st) < 0 ||
      st.st_nlink == 0)
    return;
  files[fs::path(path).parent_path()].insert({st.st_dev, st.st_ino});
}

FilesByFolder unlinked_files(const Target &target, const DescriptorTable &table) {
  FilesByFolder files;
  for (const Process &p : target.processes) {
    for (const Descriptor &d : table.at(p.pid))
      if (d.kind == Descriptor::Kind::File)
        add_unlinked(files, d.target, fmt::format("/proc/{}/fd/{}", p.pid, d.fd));
    for (const ProcMapping &m : mappings_of(p.pid))
      add_unlinked(files, m.path,
                   fmt::format("/proc/{}/map_files/{:x}-{:x}", p.pid, m.begin, m.end));
  }
  return files;
}

}  // namespace

std::vector<std::string> find_link_remaps(const Target &target, const DescriptorTable &table) {
  std::vector<std::string> found;
  std::error_code ec;
  for (const auto &[folder, ids] : unlinked_files(target, table))
    for (const auto &entry : fs::directory_iterator(folder, ec)) {
      struct stat st {};
      if (entry.path().filename().string().starts_with(kName) &&
          ::lstat(entry.path().c_str(), &st) == 0 && ids.contains({st.st_dev, st.st_ino}))
        found.push_back(entry.path());
    }
  return found;
}

void remove_link_remaps(const std::vector<std::string> &paths) {
  for (const std::string &path : paths) ::unlink(path.c_str());
}

}  // namespace ckpt::tools
