// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/carried_files.h"

#include <sys/stat.h>

#include <algorithm>

#include "common/base/regular_file.h"
#include "tools/dump/file_contents.h"
#include "tools/manifest/carried_files.h"
#include "tools/manifest/file_checks.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/file_writers.h"

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
  Candidates files = candidates(table);
  std::erase_if(files, [this](const auto &f) {
    return seen_.contains(f.first) || (!choice_.all && !is_supplied(f.first));
  });
  if (files.empty()) return {};
  leave_out_written(table, files);
  AsUser as(user_);
  if (!as.active()) return fail("cannot read the program's files with the rights of its user");
  for (const auto &[path, file] : files)
    if (Result<> done = save(path, file); !done)
      return Failure(std::move(done.error()).in(fmt::format("cannot save the file {}", path)));
  return {};
}

CarriedFiles::Candidates CarriedFiles::candidates(const DescriptorTable &table) const {
  Candidates files;
  for (const Process &p : target_.processes)
    for (const ProcMapping &m : mappings_of(p.pid)) {
      if (!m.path.starts_with('/')) continue;
      Candidate &file = files[m.path];
      file.inode = m.inode;
      file.has_code |= m.permissions.find('x') != std::string::npos;
    }
  for (const auto &[pid, descriptors] : table)
    for (const Descriptor &d : descriptors)
      if (d.kind == Descriptor::Kind::File && !d.deleted && !d.made_by_kernel())
        files[d.target].inode = d.inode;
  return files;
}

void CarriedFiles::leave_out_written(const DescriptorTable &table, Candidates &files) const {
  for (const auto &[pid, descriptors] : table)
    for (const Descriptor &d : descriptors)
      if (d.writable()) files.erase(d.target);
  for (const Process &p : target_.processes)
    for (const ProcMapping &m : mappings_of(p.pid))
      if (can_write(p.pid, m)) files.erase(m.path);
  std::map<FileId, std::string> paths;
  std::set<FileId> ids;
  for (const auto &[path, file] : files)
    if (struct stat st{}; ::stat((target_.files + path).c_str(), &st) == 0) {
      paths[{st.st_dev, st.st_ino}] = path;
      ids.insert({st.st_dev, st.st_ino});
    }
  for (const FileWriter &w : writers_of(ids, {})) files.erase(paths[w.file]);
}

bool CarriedFiles::is_wanted(const std::string &path, const Candidate &file,
                             const struct stat &st) const {
  if (st.st_ino != file.inode || (st.st_mode & (S_ISUID | S_ISGID | S_ISVTX))) return false;
  return file.has_code || is_supplied(path) || static_cast<u64>(st.st_size) <= choice_.data_bytes;
}

Result<> CarriedFiles::save(const std::string &path, const Candidate &file) {
  UniqueFd fd = open_regular(target_.files + path);
  struct stat st {};
  if (!fd && is_supplied(path)) return fail_errno("the image would lack it");
  if (!fd || ::fstat(fd.get(), &st) != 0 || !is_wanted(path, file, st)) return {};
  seen_.insert(path);
  std::optional<u64> hash = hash_of_contents(fd.get());
  if (!hash) return fail("it cannot be read");
  manifest::CarriedFile carried;
  CKPT_TRY(static_cast<manifest::StoredFile &>(carried),
           save_contents(image_, fmt::format("carried-files/{}", saved_.size()), fd.get()));
  carried.path = path;
  carried.mtime_ns = modification_time(st);
  carried.hash = *hash;
  saved_.push_back(std::move(carried));
  return {};
}

void CarriedFiles::describe(manifest::Manifest &m) const {
  Recorded recorded = recorded_files(m);
  for (const manifest::CarriedFile &f : saved_)
    if (auto it = recorded.find(f.path);
        it != recorded.end() && it->second == std::pair(f.size, f.mtime_ns))
      m.carried_files.push_back(f);
}

}  // namespace ckpt::tools
