// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/file_growth.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "common/base/regular_file.h"

namespace ckpt::tools {
namespace {

// What each file of such a format contains, wherever it lies.
struct Signature {
  const char *format;
  size_t offset;
  std::string_view bytes;
};

using namespace std::string_view_literals;

// sqlite.org (Database File Format, 1.3 and 4.1); LMDB: mdb.c, MDB_MAGIC after a page's header;
// Berkeley DB and GDBM: magic(5) of file(1), in the order of bytes of this machine; the HDF5 File
// Format Specification, III.A; the NetCDF Classic Format; DuckDB: main_header.hpp.
constexpr Signature kSignatures[] = {{"SQLite", 0, "SQLite format 3\0"sv},
                                     {"SQLite", 0, "\x37\x7f\x06\x82"sv},
                                     {"SQLite", 0, "\x37\x7f\x06\x83"sv},
                                     {"LMDB", 16, "\xde\xc0\xef\xbe"sv},
                                     {"Berkeley DB", 12, "\x62\x31\x05\0"sv},
                                     {"Berkeley DB", 12, "\x61\x15\x06\0"sv},
                                     {"Berkeley DB", 12, "\x53\x22\x04\0"sv},
                                     {"Berkeley DB", 12, "\x88\x09\x04\0"sv},
                                     {"GDBM", 0, "\xcd\x9a\x57\x13"sv},
                                     {"GDBM", 0, "\xce\x9a\x57\x13"sv},
                                     {"GDBM", 0, "\xcf\x9a\x57\x13"sv},
                                     {"HDF5", 0, "\x89HDF\r\n\x1a\n"sv},
                                     {"NetCDF", 0, "CDF\x01"sv},
                                     {"NetCDF", 0, "CDF\x02"sv},
                                     {"NetCDF", 0, "CDF\x05"sv},
                                     {"DuckDB", 8, "DUCK"sv}};

// Databases of many files, by one that lies beside all of them.
constexpr std::pair<const char *, const char *> kNeighbours[] = {
    {"CURRENT", "LevelDB or RocksDB"}, {"ibdata1", "InnoDB"}, {"PG_VERSION", "PostgreSQL"}};

const char *format_of_contents(const std::string &path) {
  constexpr size_t kFirstBytes = 20;
  UniqueFd fd = open_regular(path);
  std::array<char, kFirstBytes> first{};
  if (!fd) return nullptr;
  ssize_t n = ::pread(fd.get(), first.data(), first.size(), 0);
  std::string_view bytes(first.data(), n < 0 ? 0 : static_cast<size_t>(n));
  for (const Signature &s : kSignatures)
    if (bytes.size() >= s.offset && bytes.substr(s.offset).starts_with(s.bytes)) return s.format;
  return nullptr;
}

// The database to which a file belongs, or null.
const char *database_of(const std::string &path) {
  if (const char *format = format_of_contents(path)) return format;
  for (std::string_view end : {"-journal", "-wal", "-shm", ".wal"})
    if (path.ends_with(end))
      if (const char *format = format_of_contents(path.substr(0, path.size() - end.size())))
        return format;
  std::string folder = path.substr(0, path.rfind('/') + 1);
  for (auto [name, format] : kNeighbours)
    if (::access((folder + name).c_str(), F_OK) == 0) return format;
  return nullptr;
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
  if (const char *database = database_of(path))
    return fmt::format("it belongs to a database or file of results ({}), which would be damaged",
                       database);
  switch (writers_of(path)) {
    case Writers::None: return {};
    case Writers::Some: return "another program has it open for writing";
    case Writers::Unknown:
      return "the kernel does not say whether another program has it open for writing";
  }
  return {};
}

}  // namespace

bool is_output(const ImageManifest &m, const ImageManifest::File &f) {
  return (m.streams.out && m.streams.out->target == f.path) ||
         (m.streams.err && m.streams.err->target == f.path);
}

std::string refused_growth(const ImageManifest::File &f, u64 now, const GrownFiles &grown,
                           const std::string &path) {
  GrownFiles::Choice choice = grown.of(f);
  if (choice == GrownFiles::Append || choice == GrownFiles::AppendOutput ||
      grown.cut.contains(f.path))
    return {};
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
      "program continues with what it contains now; --truncate-file={} cuts it nevertheless, and "
      "keeps a copy",
      file, harm, f.path);
}

}  // namespace ckpt::tools
