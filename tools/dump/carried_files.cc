// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/carried_files.h"

#include <map>

#include "tools/dump/file_contents.h"
#include "tools/manifest/carried_files.h"
#include "tools/manifest/file_checks.h"

namespace ckpt::tools {
namespace {

// The files that a restore compares by size and time, and that the image does not contain.
using Recorded = std::map<std::string, std::pair<u64, i64>>;

Recorded recorded_files(const manifest::Manifest &m) {
  Recorded files;
  for (const manifest::MappedFile &f : m.mapped_files)
    if (f.mtime_ns) files[f.path] = {f.size, *f.mtime_ns};
  for (const manifest::File &f : m.files)
    if (f.mtime_ns && !f.writable) files[f.path] = {f.size, *f.mtime_ns};
  for (const manifest::File &f : m.files)
    if (f.writable) files.erase(f.path);
  // The image has these otherwise.
  for (const manifest::StoredFile &f : m.memory_files) files.erase(f.path);
  for (const manifest::StoredFile &f : m.kept_files) files.erase(f.path);
  return files;
}

}  // namespace

Result<> CarriedFiles::save(const DescriptorTable &table) {
  return choice_.choose(
      table, seen_,
      [this](const std::string &path, int fd, const struct stat &st) { return save(path, fd, st); },
      [this](const std::string &path, const std::string &) { seen_.insert(path); });
}

Result<> CarriedFiles::save(const std::string &path, int fd, const struct stat &st) {
  seen_.insert(path);
  std::optional<u64> hash = hash_of_contents(fd);
  if (!hash) return fail("it cannot be read");
  manifest::CarriedFile carried;
  CKPT_TRY(static_cast<manifest::StoredFile &>(carried),
           save_contents(image_, fmt::format("carried-files/{}", saved_.size()), fd));
  carried.path = path;
  carried.mtime_ns = modification_time(st);
  carried.hash = *hash;
  saved_.push_back(std::move(carried));
  return {};
}

void CarriedFiles::describe(manifest::Manifest &m) const {
  m.carried_files = saved_;
  leave_out_undescribed(m);
}

void leave_out_undescribed(manifest::Manifest &m) {
  std::erase_if(m.carried_files, [recorded = recorded_files(m)](const manifest::CarriedFile &f) {
    auto it = recorded.find(f.path);
    return it == recorded.end() || it->second != std::pair(f.size, f.mtime_ns);
  });
}

}  // namespace ckpt::tools
