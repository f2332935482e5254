// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/link_remaps.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>

#include "common/base/unique_fd.h"
#include "common/proc/file.h"
#include "tools/proc/file_writers.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName = "link_remap.";

using FilesByFolder = std::map<std::string, std::set<FileId>>;

void add_unlinked(FilesByFolder &files, const std::string &path, const std::string &link) {
  struct stat st {};
  if (!path.starts_with('/') || !path.ends_with(proc::kUnlinked) || ::stat(link.c_str(), &st) < 0 ||
      st.st_nlink == 0)
    return;
  files[fs::path(path).parent_path()].insert({st.st_dev, st.st_ino});
}

// A tool without the right to follow the link of a mapping (proc_pid_map_files(5)) takes what the
// kernel says of it.
void add_unlinked(FilesByFolder &files, const ProcMapping &m, const std::string &link) {
  struct stat st {};
  if (::stat(link.c_str(), &st) == 0 || m.inode == 0) return add_unlinked(files, m.path, link);
  if (m.path.starts_with('/') && m.path.ends_with(proc::kUnlinked))
    files[fs::path(m.path).parent_path()].insert({m.device, m.inode});
}

FilesByFolder unlinked_files(const Target &target, const DescriptorTable &table) {
  FilesByFolder files;
  for (const Process &p : target.processes) {
    for (const Descriptor &d : table.at(p.pid))
      if (d.kind == Descriptor::Kind::File)
        add_unlinked(files, d.target, proc::fd_path(p.pid, d.fd));
    for (const ProcMapping &m : mappings_of(p.pid)) add_unlinked(files, m, map_file(p.pid, m));
  }
  return files;
}

// CRIU's own names end in a number.
bool is_criu_name(const std::string &name) {
  return name.starts_with(kName) &&
         name.find_first_not_of("0123456789", kName.size()) == std::string::npos;
}

std::string kept_name(const std::string &path) {
  auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}.ckpt-{:x}", path, now);
}

// Relative to the open folder: its user can make the path lead elsewhere at any moment, but a name
// in this folder is one of the program's unlinked files only if CRIU or the user has linked it
// there.
void keep_in_folder(const std::string &folder, int fd, const std::set<FileId> &ids,
                    std::vector<ImageManifest::Link> &kept) {
  std::error_code ec;
  for (const auto &entry : fs::directory_iterator(proc::fd_path(proc::kSelf, fd), ec)) {
    struct stat st {};
    std::string name = entry.path().filename(), new_name = kept_name(name);
    if (is_criu_name(name) && ::fstatat(fd, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        ids.contains({st.st_dev, st.st_ino}) &&
        ::renameat(fd, name.c_str(), fd, new_name.c_str()) == 0)
      kept.push_back({folder + "/" + name, folder + "/" + new_name});
  }
}

}  // namespace

bool link_name_is_taken(const Error &of_criu) {
  return of_criu.what.find("Can't link remap") != std::string::npos &&
         of_criu.what.find("File exists") != std::string::npos;
}

std::vector<ImageManifest::Link> keep_link_remaps(const Target &target,
                                                  const DescriptorTable &table) {
  std::vector<ImageManifest::Link> kept;
  for (const auto &[folder, ids] : unlinked_files(target, table)) {
    UniqueFd fd(::open((target.files + folder).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (fd) keep_in_folder(folder, fd.get(), ids, kept);
  }
  return kept;
}

void remove_links(const std::vector<ImageManifest::Link> &links, const std::string &files) {
  for (const ImageManifest::Link &l : links) ::unlink((files + l.kept).c_str());
}

}  // namespace ckpt::tools
