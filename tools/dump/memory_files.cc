// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/memory_files.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tools/dump/file_contents.h"
#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

bool is_file(const std::string &path, FileId id) {
  struct stat st {};
  return ::lstat(path.c_str(), &st) == 0 && FileId{st.st_dev, st.st_ino} == id;
}

// A file of tmpfs that has a name. Memory without a name (memfds, /dev/zero, System V) is in tmpfs
// too, but has no links.
bool is_memory_file(int fd) {
  struct stat st {};
  struct statfs fs {};
  return ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 0 &&
         ::fstatfs(fd, &fs) == 0 && static_cast<long>(fs.f_type) == TMPFS_MAGIC;
}

// Not the names that dumps have given to unlinked files (link_remaps.h).
bool is_own_name(const fs::path &path) {
  return !path.filename().string().starts_with("link_remap.");
}

// The other names of a file: those in its folder, and those by which the program has mapped it.
// sem_open(3) makes /dev/shm/sem.NAME under another name, which it then removes, so the processes
// of a program may have mapped one file by several names.
std::set<std::string> other_names(const std::string &path, FileId id,
                                  const std::set<std::string> &mapped) {
  std::set<std::string> names;
  for (const std::string &name : mapped)
    if (is_file(name, id)) names.insert(name);
  std::error_code ec;
  for (const auto &entry : fs::directory_iterator(fs::path(path).parent_path(), ec))
    if (is_own_name(entry.path()) && is_file(entry.path(), id)) names.insert(entry.path());
  names.erase(path);
  return names;
}

// The program may have started it since its processes were listed.
bool is_of_program(pid_t pid, pid_t root) {
  return std::ranges::any_of(ProcessTable::read().tree(root),
                             [pid](const Process &p) { return p.pid == pid; });
}

}  // namespace

MemoryFiles MemoryFiles::of(const Target &target) {
  MemoryFiles found;
  std::map<FileId, std::set<std::string>> names;
  std::set<FileId> seen;
  for (const Process &p : target.processes)
    for (const ProcMapping &m : mappings_of(p.pid)) {
      FileId id{m.device, m.inode};
      if (m.inode == 0 || !m.permissions.ends_with('s')) continue;
      names[id].insert(m.path);
      if (seen.contains(id) || !can_write(p.pid, m)) continue;
      seen.insert(id);
      UniqueFd fd = open_mapped(p.pid, m, target.files);
      if (fd && is_memory_file(fd.get())) found.files_.push_back({id, std::move(fd), m.path, {}});
    }
  for (File &f : found.files_) f.mapped_as = names[f.id];
  return found;
}

void MemoryFiles::check_not_shared_with_others(const Target &target, Reasons &reasons) const {
  std::set<FileId> ids;
  std::set<pid_t> program{::getpid()};
  for (const File &f : files_) ids.insert(f.id);
  for (const Process &p : target.processes) program.insert(p.pid);
  for (const FileWriter &w : writers_of(ids, program))
    for (const File &f : files_)
      if (f.id == w.file && !is_of_program(w.process.pid, target.root))
        reasons.push_back(
            fmt::format("the program shares the memory {} with {}, which is not part of the "
                        "program and can change the memory at any time: end that process first, or "
                        "start both with one ckpt-run",
                        f.name, name_of(w.process)));
}

Result<> MemoryFiles::save(storage::ImageWriter &image,
                           const std::vector<ImageManifest::Link> &links) {
  for (const File &f : files_)
    if (Result<> saved = save(f, image, links); !saved)
      return Failure(std::move(saved.error()).in(fmt::format("the shared memory {}", f.name)));
  return {};
}

Result<> MemoryFiles::save(const File &f, storage::ImageWriter &image,
                           const std::vector<ImageManifest::Link> &links) {
  std::string path = f.name;
  for (const ImageManifest::Link &l : links)
    if (is_file(l.kept, f.id)) path = l.kept;
  if (!is_file(path, f.id)) return fail("its name leads to another file");
  CKPT_TRY(manifest::StoredFile described,
           save_contents(image, fmt::format("memory-files/{}", described_.size()), f.fd.get()));
  described.path = path;
  std::set<std::string> names = other_names(path, f.id, f.mapped_as);
  described.names = {names.begin(), names.end()};
  described.folders = describe_folders(path, {});
  described_.push_back(std::move(described));
  return {};
}

}  // namespace ckpt::tools
