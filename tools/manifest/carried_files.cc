// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/carried_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "common/base/io.h"
#include "common/base/regular_file.h"
#include "storage/format/hash.h"
#include "tools/manifest/file_checks.h"
#include "tools/session/leftovers.h"
#include "tools/session/session_folder.h"

namespace ckpt::tools {
namespace {

constexpr size_t kPieceBytes = 1u << 20;

// Where the original path begins, with its slash: behind "/ckpt-UID-XXXXXX/files/NUMBER".
std::optional<size_t> begin_of_original(const std::string &path) {
  const std::string marker = std::string("/") + kSuppliedFolder + "/";
  for (size_t at = path.find(marker); at != path.npos; at = path.find(marker, at + 1)) {
    size_t session = path.rfind('/', at - 1), number = at + marker.size();
    size_t end = path.find_first_not_of("0123456789", number);
    if (at > 0 && session != path.npos && end != path.npos && end > number && path[end] == '/' &&
        is_session_name(std::string_view(path).substr(session + 1, at - session - 1)))
      return end;
  }
  return std::nullopt;
}

// The program sees changes of a file that it has mapped shared. As without carried files, it sees
// what the file contains here.
bool shows_changes(const ImageManifest &m, const std::string &path) {
  return std::ranges::any_of(m.mapped_files, [&](const ImageManifest::MappedFile &f) {
    return f.shared && f.path == path;
  });
}

// CRIU compares the mode, too.
bool is_here(const ImageManifest::CarriedFile &f, bool shows_changes) {
  if (is_supplied(f.path)) return false;
  UniqueFd fd = open_regular(f.path);
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0 || (st.st_mode & 07777) != f.mode) return false;
  u64 size = static_cast<u64>(st.st_size);
  if (shows_changes) return size >= f.size;
  if (size != f.size) return false;
  return modification_time(st) == f.mtime_ns || hash_of_contents(fd.get()) == f.hash;
}

// No "..", no "//": as the kernel names files.
bool is_plain(const std::string &path) {
  return path.find('\0') == path.npos && !path.ends_with('/') &&
         std::filesystem::path(path).lexically_normal().native() == path;
}

}  // namespace

std::string supplied_path(const std::string &session, size_t number, const std::string &path) {
  return fmt::format("{}/{}/{}{}", session, kSuppliedFolder, number, original_path(path));
}

bool is_supplied(const std::string &path) { return begin_of_original(path).has_value(); }

std::string original_path(const std::string &path) {
  std::optional<size_t> begin = begin_of_original(path);
  return begin ? path.substr(*begin) : path;
}

std::optional<u64> hash_of_contents(int fd) {
  storage::Xxh3_64 hash;
  Bytes piece(kPieceBytes);
  for (off_t at = 0;; at += static_cast<off_t>(piece.size())) {
    Result<size_t> n = read_at(fd, piece, at);
    if (!n) return std::nullopt;
    hash.add(std::span(piece).first(*n));
    if (*n < piece.size()) return hash.value();
  }
}

std::set<std::string> files_to_supply(const ImageManifest &m) {
  std::set<std::string> paths;
  for (const ImageManifest::CarriedFile &f : m.carried_files)
    if (!is_here(f, shows_changes(m, f.path))) paths.insert(f.path);
  return paths;
}

void check_carried_contents(const ImageManifest &m, const storage::ImageReader &image,
                            Reasons &reasons) {
  for (const ImageManifest::CarriedFile &f : m.carried_files)
    if (const storage::StreamEntry *stream = image.find(f.stream);
        !stream || stream->size != data_bytes(f))
      reasons.push_back(fmt::format("the image lacks the contents of {}", f.path));
}

bool plausible_carried(const ImageManifest &m) {
  std::set<std::pair<std::string, u64>> had;
  for (const ImageManifest::MappedFile &f : m.mapped_files) had.insert({f.path, f.size});
  for (const ImageManifest::File &f : m.files) had.insert({f.path, f.size});
  return std::ranges::all_of(m.carried_files, [&](const ImageManifest::CarriedFile &f) {
    return had.erase({f.path, f.size}) == 1 && is_plain(f.path) && f.names.empty();
  });
}

}  // namespace ckpt::tools
