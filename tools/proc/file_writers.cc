// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/file_writers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/proc/file.h"
#include "common/proc/status.h"
#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

// The links in /proc/PID/fd and /proc/PID/map_files have the rights of the descriptor.
bool is_for_writing(const std::string &link) {
  struct stat st {};
  return ::lstat(link.c_str(), &st) == 0 && (st.st_mode & S_IWUSR);
}

std::set<FileId> open_for_writing(pid_t pid) {
  std::set<FileId> files;
  for (int fd : proc::descriptors_of(pid)) {
    std::string link = proc::fd_path(pid, fd);
    struct stat st {};
    if (::stat(link.c_str(), &st) == 0 && S_ISREG(st.st_mode) && is_for_writing(link))
      files.insert({st.st_dev, st.st_ino});
  }
  return files;
}

std::set<FileId> written_by(pid_t pid, const std::set<FileId> &files) {
  std::set<FileId> found, open = open_for_writing(pid);
  for (const FileId &id : files)
    if (open.contains(id)) found.insert(id);
  for (const ProcMapping &m : mappings_of(pid))
    if (files.contains({m.device, m.inode}) && can_write(pid, m)) found.insert({m.device, m.inode});
  return found;
}

constexpr int kReading = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

UniqueFd open_if(const std::string &path, u64 inode) {
  UniqueFd fd(::open(path.c_str(), kReading | O_NOFOLLOW));
  struct stat st {};
  bool same = fd && ::fstat(fd.get(), &st) == 0 && st.st_ino == inode;
  return same ? std::move(fd) : UniqueFd();
}

// A file that has lost the name by which it was mapped has another one in the same folder: of
// sem_open(3), or of a dump.
UniqueFd open_in_folder(const std::filesystem::path &folder, const FileId &id) {
  std::error_code ec;
  for (const auto &entry : std::filesystem::directory_iterator(folder, ec)) {
    struct stat st {};
    if (::lstat(entry.path().c_str(), &st) == 0 && FileId{st.st_dev, st.st_ino} == id)
      return open_if(entry.path(), id.inode);
  }
  return {};
}

}  // namespace

std::string map_file(pid_t pid, const ProcMapping &m) {
  return proc::map_path(pid, m.begin, m.end);
}

bool can_write(pid_t pid, const ProcMapping &m) {
  if (!m.permissions.ends_with('s')) return false;
  return m.permissions[1] == 'w' || is_for_writing(map_file(pid, m));
}

UniqueFd open_mapped(pid_t pid, const ProcMapping &m, const std::string &files) {
  UniqueFd fd(::open(map_file(pid, m).c_str(), kReading));
  if (fd || !m.path.starts_with('/')) return fd;
  fd = open_if(files + m.path, m.inode);
  if (fd || !m.path.ends_with(proc::kUnlinked)) return fd;
  return open_in_folder(std::filesystem::path(files + m.path).parent_path(), {m.device, m.inode});
}

std::vector<FileWriter> writers_of(const std::set<FileId> &files, const std::set<pid_t> &except) {
  std::vector<FileWriter> writers;
  if (files.empty()) return writers;
  for (const Process &p : ProcessTable::read().names())
    if (!except.contains(p.pid))
      for (const FileId &id : written_by(p.pid, files)) writers.push_back({id, p});
  return writers;
}

}  // namespace ckpt::tools
