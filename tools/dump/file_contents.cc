// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/file_contents.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "common/base/io.h"
#include "common/base/rounded_up.h"
#include "storage/format/format.h"

namespace ckpt::tools {
namespace {

struct Extent {
  u64 begin, end;
};

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

}  // namespace

Result<manifest::StoredFile> save_contents(storage::ImageWriter &image, const std::string &stream,
                                           int fd) {
  struct stat st {};
  if (::fstat(fd, &st) < 0) return fail_errno("cannot inspect it");
  manifest::StoredFile file;
  file.mode = st.st_mode & 0777;
  file.uid = st.st_uid;
  file.gid = st.st_gid;
  file.stream = stream;
  file.size = static_cast<u64>(st.st_size);
  CKPT_TRY(storage::StreamId id, image.stream(stream));
  for (const Extent &e : extents_of(fd, file.size)) {
    CKPT_CHECK(append(image, id, fd, e));
    file.extents.emplace_back(e.begin, e.end - e.begin);
  }
  CKPT_CHECK(image.close(id));
  return file;
}

std::vector<manifest::StoredFolder> describe_folders(const std::string &path,
                                                     const std::string &files) {
  std::vector<manifest::StoredFolder> list;
  std::filesystem::path folder = "/";
  for (const auto &name : std::filesystem::path(path).parent_path().relative_path()) {
    folder /= name;
    struct stat st {};
    if (::stat((files + folder.string()).c_str(), &st) != 0) break;
    list.push_back({folder.string(), st.st_mode & 07777, st.st_uid, st.st_gid});
  }
  return list;
}

}  // namespace ckpt::tools
