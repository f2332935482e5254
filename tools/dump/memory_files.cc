// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/memory_files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "common/base/io.h"
#include "common/base/rounded_up.h"
#include "storage/format/format.h"
#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Extent {
  u64 begin, end;
};

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

// Other names of an unlinked file in its folder, such as /dev/shm/sem.NAME: sem_open(3) removes the
// name under which it made the file.
std::vector<std::string> other_names(const std::string &path, FileId id) {
  std::vector<std::string> names;
  std::error_code ec;
  for (const auto &entry : fs::directory_iterator(fs::path(path).parent_path(), ec))
    if (entry.path() != path && is_file(entry.path(), id)) names.push_back(entry.path());
  return names;
}

// Whole chunks of the stream, so that equal ones are found in the parent image wherever the file
// has grown or got holes (lseek(2), SEEK_DATA).
std::vector<Extent> extents_of(int fd, u64 size) {
  constexpr u64 kUnit = storage::kChunkBytes;
  std::vector<Extent> extents;
  for (u64 at = 0; at < size;) {
    off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0) break;  // a hole up to the end
    off_t hole = ::lseek(fd, data, SEEK_HOLE);
    u64 begin = static_cast<u64>(data) / kUnit * kUnit;
    u64 end = std::min(size, rounded_up(static_cast<u64>(hole), kUnit));
    if (extents.empty() || extents.back().end < begin)
      extents.push_back({begin, end});
    else
      extents.back().end = end;
    at = end;
  }
  return extents;
}

Result<> append(storage::ImageWriter &image, storage::StreamId id, int fd, Extent e) {
  while (e.begin < e.end) {
    CKPT_TRY(std::span<std::byte> room, image.room(id));
    room = room.first(std::min<u64>(room.size(), e.end - e.begin));
    CKPT_TRY(size_t n, read_at(fd, room, static_cast<off_t>(e.begin)));
    if (n == 0) return fail("it became shorter during the dump");
    CKPT_CHECK(image.commit(id, n));
    e.begin += n;
  }
  return {};
}

json as_json(const std::vector<Extent> &extents) {
  json list = json::array();
  for (const Extent &e : extents) list.push_back({e.begin, e.end - e.begin});
  return list;
}

}  // namespace

MemoryFiles MemoryFiles::of(const Target &target) {
  MemoryFiles found;
  std::set<FileId> seen;
  for (const Process &p : target.processes)
    for (const ProcMapping &m : mappings_of(p.pid)) {
      FileId id{m.device, m.inode};
      if (m.inode == 0 || seen.contains(id) || !can_write(p.pid, m)) continue;
      seen.insert(id);
      UniqueFd fd(::open(map_file(p.pid, m).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
      if (fd && is_memory_file(fd.get())) found.files_.push_back({id, std::move(fd), m.path});
    }
  return found;
}

void MemoryFiles::check_not_shared_with_others(const Target &target, Reasons &reasons) const {
  std::set<FileId> ids;
  std::set<pid_t> program{::getpid()};
  for (const File &f : files_) ids.insert(f.id);
  for (const Process &p : target.processes) program.insert(p.pid);
  for (const FileWriter &w : writers_of(ids, program))
    for (const File &f : files_)
      if (f.id == w.file)
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
  struct stat st {};
  if (!is_file(path, f.id) || ::fstat(f.fd.get(), &st) < 0)
    return fail("its name leads to another file");
  std::vector<Extent> extents = extents_of(f.fd.get(), static_cast<u64>(st.st_size));
  std::string stream = fmt::format("memory-files/{}", described_.size());
  CKPT_TRY(storage::StreamId id, image.stream(stream));
  for (const Extent &e : extents) CKPT_CHECK(append(image, id, f.fd.get(), e));
  CKPT_CHECK(image.close(id));
  described_.push_back(
      {{"path", path},
       {"names", path == f.name ? std::vector<std::string>() : other_names(path, f.id)},
       {"stream", stream},
       {"size", st.st_size},
       {"mode", st.st_mode & 0777},
       {"uid", st.st_uid},
       {"gid", st.st_gid},
       {"extents", as_json(extents)}});
  return {};
}

}  // namespace ckpt::tools
