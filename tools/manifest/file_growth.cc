// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/file_growth.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "common/base/io.h"
#include "common/base/regular_file.h"

namespace ckpt::tools {
namespace {

// The first bytes of a database and of its write-ahead log (sqlite.org, Database File Format, 1.3
// and 4.1).
bool begins_like_sqlite(const std::string &path) {
  UniqueFd fd = open_regular(path);
  std::array<char, 16> first{};
  if (!fd || !read_exactly(fd.get(), first.data(), first.size())) return false;
  std::string_view bytes(first.data(), first.size());
  return bytes == std::string_view("SQLite format 3", 16) ||
         bytes.starts_with("\x37\x7f\x06\x82") || bytes.starts_with("\x37\x7f\x06\x83");
}

bool is_sqlite(const std::string &path) {
  if (begins_like_sqlite(path)) return true;
  for (std::string_view end : {"-journal", "-wal", "-shm"})
    if (path.ends_with(end) && begins_like_sqlite(path.substr(0, path.size() - end.size())))
      return true;
  return false;
}

enum class Writers { None, Some, Unknown };

// The kernel gives a read lease only if nothing has the file open for writing (fcntl(2),
// F_SETLEASE). It gives none to other users, and on some file systems.
Writers writers_of(const std::string &path) {
  UniqueFd fd = open_regular(path);
  if (!fd) return Writers::Unknown;
  if (::fcntl(fd.get(), F_SETLEASE, F_RDLCK) == 0) {
    ::fcntl(fd.get(), F_SETLEASE, F_UNLCK);
    return Writers::None;
  }
  return errno == EAGAIN ? Writers::Some : Writers::Unknown;
}

// What a cut destroys, after the file's name; empty: it is right for this file.
std::string harm_of_cut(const std::string &path) {
  if (is_sqlite(path)) return "it belongs to a SQLite database, which would be damaged";
  switch (writers_of(path)) {
    case Writers::None: return {};
    case Writers::Some: return "another program has it open for writing";
    case Writers::Unknown:
      return "the kernel does not say whether another program has it open for writing";
  }
  return {};
}

}  // namespace

std::string refused_growth(const ImageManifest::File &f, u64 now, const GrownFiles &grown,
                           const std::string &path) {
  GrownFiles::Choice choice = grown.of(f);
  if (choice == GrownFiles::Append || grown.cut.contains(f.path)) return {};
  std::string harm = harm_of_cut(path);
  if (choice == GrownFiles::Truncate && harm.empty()) return {};
  std::string file = fmt::format("the file {} has grown since the dump ({} bytes instead of {})",
                                 f.path, now, f.size);
  if (harm.empty())
    return fmt::format(
        "{}: --truncate-files removes the {} bytes that were added; --append-files keeps them and "
        "continues at the end",
        file, now - f.size);
  return fmt::format(
      "{}, and --truncate-files does not cut it, because {}: --append-files keeps it, and the "
      "program continues with what it contains now; --truncate-file={} cuts it nevertheless",
      file, harm, f.path);
}

}  // namespace ckpt::tools
