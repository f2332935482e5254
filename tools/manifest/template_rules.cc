// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/template_rules.h"

#include <fcntl.h>

namespace ckpt::tools {
namespace {

constexpr std::string_view kPrivateFolder = "/dev/shm/";

bool writes(u32 flags) { return (flags & O_ACCMODE) == O_RDWR || (flags & O_ACCMODE) == O_WRONLY; }

// The files that a process has mapped so that others see what it writes. Memory without a name is
// each copy's own.
std::set<std::string> written_mappings(const CriuFiles &criu) {
  std::set<std::string> paths;
  for (const auto &[pid, p] : criu.processes)
    for (const CriuFiles::Mapping &m : p.mappings)
      if (auto f = criu.files.find(m.file);
          f != criu.files.end() && !m.is_private && writes(m.flags) && !f->second.by_other_name)
        paths.insert(f->second.path);
  paths.erase("");
  return paths;
}

const CriuFiles::File *file_of(const CriuFiles &criu, const CriuFiles::Lock &lock) {
  auto process = criu.processes.find(lock.pid);
  if (process == criu.processes.end()) return nullptr;
  auto table = criu.descriptors.find(process->second.descriptors);
  if (table == criu.descriptors.end()) return nullptr;
  auto id = table->second.find(lock.fd);
  auto file = id == table->second.end() ? criu.files.end() : criu.files.find(id->second);
  return file == criu.files.end() ? nullptr : &file->second;
}

}  // namespace

bool is_private_to_copy(const std::string &path) { return path.starts_with(kPrivateFolder); }

std::set<std::string> output_files(const ImageManifest &m) {
  std::set<std::string> paths;
  for (int fd : {1, 2})
    if (!m.file_at[fd].empty()) paths.insert(m.file_at[fd]);
  return paths;
}

void check_template(const ImageManifest &m, Reasons &reasons) {
  for (const ImageManifest::Socket &s : m.sockets)
    if (s.remote)
      reasons.push_back(fmt::format(
          "the program has a TCP connection from {} to {}, of which only one copy could have its "
          "end: close it first, or add --tcp-close, with which all copies find it closed",
          s.local.text(), s.remote->text()));
  for (const ImageManifest::Fifo &f : m.fifos)
    reasons.push_back(fmt::format(
        "descriptor {} of the program is the FIFO {}, whose other end another program has, and "
        "which all copies would share: close it first",
        f.fd, f.path));
}

void check_shared_files(const ImageManifest &m, const CriuFiles &criu, Reasons &reasons) {
  const std::set<std::string> own = output_files(m);
  std::set<std::string> written = written_mappings(criu);
  for (const ImageManifest::File &f : m.files)
    if (f.writable && !f.append_only) written.insert(f.path);
  for (const ImageManifest::StoredFile &f : m.memory_files) written.insert(f.path);
  for (const std::string &path : written)
    if (!own.contains(path) && !is_private_to_copy(path))
      reasons.push_back(fmt::format(
          "the program has {} open for writing, and all copies would write to it: close it before "
          "the dump, or start one copy, or accept that (--share-files)",
          path));
}

void check_shared_locks(const CriuFiles &criu, Reasons &reasons) {
  for (const CriuFiles::Lock &lock : criu.locks) {
    const CriuFiles::File *file = file_of(criu, lock);
    bool own = file && (file->ghost != 0 || is_private_to_copy(file->path));
    if (!own)
      reasons.push_back(fmt::format(
          "process {} of the program has locked {}, which only one copy can: release the lock "
          "before the dump, or start one copy",
          lock.pid, file ? file->path : fmt::format("the file of descriptor {}", lock.fd)));
  }
}

}  // namespace ckpt::tools
