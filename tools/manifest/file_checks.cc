// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/file_checks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "common/base/driver_files.h"
#include "common/base/io.h"
#include "common/base/log.h"
#include "common/base/regular_file.h"
#include "storage/format/hash.h"

namespace ckpt::tools {
namespace {

bool is_regular(const std::string &path, struct stat &st) {
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

// In a folder that the program's user may not search. check_open_rights() names it.
bool is_hidden(const std::string &path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) != 0 && errno == EACCES;
}

// A restore makes these files, with their contents and all their names.
std::set<std::string> files_of_image(const ImageManifest &m, const std::string &prefix) {
  std::set<std::string> paths = m.supplied;
  for (const ImageManifest::StoredFile &f : m.kept_files)
    if (::access((prefix + f.path).c_str(), F_OK) != 0) paths.insert(f.path);
  for (const ImageManifest::StoredFile &f : m.memory_files) {
    paths.insert(f.path);
    paths.insert(f.names.begin(), f.names.end());
  }
  return paths;
}

// The kernel's files. Images of earlier versions name them too.
bool is_made_by_kernel(const std::string &path) {
  return path.starts_with("/proc/") || path.starts_with("/sys/");
}

constexpr const char *kNextTime = " (images of ckpt-dump --with-files need no such file)";

enum class Contents { Same, Changed, Unknown };

// A file may have been copied here, which changes its time of modification alone.
Contents contents_of(const ImageManifest::MappedFile &f, const std::string &path,
                     const struct stat &st) {
  bool untouched = !f.mtime_ns || *f.mtime_ns == modification_time(st);
  if (untouched && !(f.shared && f.hash)) return Contents::Same;
  if (!f.hash) return Contents::Unknown;
  return hash_of_file(path) == f.hash ? Contents::Same : Contents::Changed;
}

std::string with_sizes(const ImageManifest::MappedFile &f, u64 now) {
  return fmt::format("({} bytes instead of {})", now, f.size);
}

std::string refused_size(const ImageManifest::File &f, u64 now, const GrownFiles &grown,
                         const std::string &path) {
  if (now < f.size)
    return fmt::format("the file {} is shorter than at the dump {}: put it back as it was", f.path,
                       with_sizes(f, now));
  if (!f.writable)
    return fmt::format("the file {} has changed since the dump {}: put it back as it was{}", f.path,
                       with_sizes(f, now), kNextTime);
  return refused_growth(f, now, grown, path);
}

void warn_of_later_contents(const ImageManifest::MappedFile &f) {
  log::warn(
      "the file {} was modified since the dump; the program continues with what it contains now",
      f.path);
}

std::string refused_file(const ImageManifest::File &f, const GrownFiles &grown,
                         const std::string &prefix) {
  struct stat st {};
  if (is_made_by_kernel(f.path) || is_hidden(prefix + f.path)) return {};
  if (!is_regular(prefix + f.path, st))
    return fmt::format("the file {} is missing: put it back", f.path);
  u64 now = static_cast<u64>(st.st_size);
  if (f.append_only) return {};
  if (now != f.size) return refused_size(f, now, grown, prefix + f.path);
  Contents contents = contents_of(f, prefix + f.path, st);
  if (contents == Contents::Changed)
    return fmt::format(
        "the file {} has changed since the dump, at the same size: put it back as it was", f.path);
  if (contents == Contents::Unknown) warn_of_later_contents(f);
  return {};
}

// What brings a library back. An image cannot carry one of the machine's driver.
std::string advice_for(const std::string &path, const char *otherwise) {
  if (is_file_of_kernel_driver(path))
    return "the program needs the version of NVIDIA's driver with which it was dumped";
  return std::string(otherwise) + kNextTime;
}

std::string refused_mapped_file(const ImageManifest::MappedFile &f, const std::string &prefix) {
  struct stat st {};
  if (is_hidden(prefix + f.path)) return {};
  if (!is_regular(prefix + f.path, st))
    return fmt::format("{}, which the program has mapped, is missing: {}", f.path,
                       advice_for(f.path, "install it again"));
  const std::string advice = advice_for(f.path, "put back the version of the dump");
  u64 now = static_cast<u64>(st.st_size);
  if (now != f.size && !(f.shared && now > f.size))
    return fmt::format("{}, which the program has mapped, has changed {}: {}", f.path,
                       with_sizes(f, now), advice);
  Contents contents = contents_of(f, prefix + f.path, st);
  if (f.shared && contents != Contents::Same) {
    warn_of_later_contents(f);
    return {};
  }
  if (contents == Contents::Changed)
    return fmt::format("{}, which the program has mapped, has changed, at the same size: {}",
                       f.path, advice);
  return {};
}

}  // namespace

void check_files(const ImageManifest &m, const GrownFiles &grown, Reasons &reasons,
                 const std::string &prefix) {
  std::set<std::string> in_image = files_of_image(m, prefix);
  for (const auto &f : m.files)
    if (in_image.contains(f.path))
      continue;
    else if (std::string reason = refused_file(f, grown, prefix); !reason.empty())
      reasons.push_back(std::move(reason));
}

void check_mapped_files(const ImageManifest &m, Reasons &reasons, const std::string &prefix) {
  std::set<std::string> in_image = files_of_image(m, prefix);
  for (const auto &f : m.mapped_files)
    if (in_image.contains(f.path))
      continue;
    else if (std::string reason = refused_mapped_file(f, prefix); !reason.empty())
      reasons.push_back(std::move(reason));
}

void check_links(const ImageManifest &m, Reasons &reasons, const std::string &prefix) {
  std::set<std::string> made_anew;
  for (const ImageManifest::StoredFile &f : m.memory_files) made_anew.insert(f.path);
  for (const ImageManifest::Link &l : m.links)
    if (!made_anew.contains(l.kept) && ::access((prefix + l.kept).c_str(), F_OK) != 0)
      reasons.push_back(
          fmt::format("{}, the name that the dump gave to an unlinked file, is missing: this image "
                      "can no longer be restored",
                      l.kept));
}

bool has_grown(const ImageManifest::File &f) {
  struct stat st {};
  return f.writable && !f.append_only && is_regular(f.path, st) &&
         static_cast<u64>(st.st_size) > f.size;
}

bool has_grown_under_mapping(const ImageManifest::MappedFile &f) {
  struct stat st {};
  return f.shared && is_regular(f.path, st) && static_cast<u64>(st.st_size) > f.size;
}

std::optional<u64> hash_of_file(const std::string &path) {
  UniqueFd fd = open_regular(path);
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) < 0 || static_cast<u64>(st.st_size) > kMaxHashedBytes)
    return std::nullopt;
  Bytes contents(static_cast<size_t>(st.st_size));
  if (!read_exactly(fd.get(), contents.data(), contents.size())) return std::nullopt;
  return storage::xxh3_64(contents);
}

i64 modification_time(const struct stat &st) {
  return st.st_mtim.tv_sec * 1'000'000'000LL + st.st_mtim.tv_nsec;
}

}  // namespace ckpt::tools
