// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/carried_choice.h"

#include "common/base/driver_files.h"
#include "common/base/regular_file.h"
#include "common/base/units.h"
#include "tools/manifest/carried_files.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/file_writers.h"

namespace ckpt::tools {

// The kernel shows other device numbers for mappings than for descriptors on some file systems.
bool CarriedChoice::Candidate::is(const struct stat &st) const {
  return S_ISREG(st.st_mode) && st.st_ino == inode && (!device || *device == st.st_dev);
}

Result<> CarriedChoice::choose(const DescriptorTable &table, const std::set<std::string> &without,
                               const Take &take, const Leave &leave) const {
  Candidates files = candidates(table);
  std::erase_if(files, [&](const auto &f) {
    return without.contains(f.first) || (!options_.all && !is_supplied(f.first));
  });
  if (files.empty()) return {};
  note_writers(table, files);
  AsUser as(user_);
  if (!as.active()) return fail("cannot read the program's files with the rights of its user");
  for (const auto &[path, file] : files)
    if (Result<> done = choose(path, file, take, leave); !done)
      return Failure(std::move(done.error()).in(fmt::format("cannot save the file {}", path)));
  return {};
}

CarriedChoice::Candidates CarriedChoice::candidates(const DescriptorTable &table) const {
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
      if (d.kind == Descriptor::Kind::File && !d.deleted && !d.made_by_kernel()) {
        Candidate &file = files[d.target];
        file.inode = d.inode;
        file.device = d.device;
      }
  return files;
}

void CarriedChoice::note_writers(const DescriptorTable &table, Candidates &files) const {
  auto note = [&files](const std::string &path, const std::string &writer) {
    if (auto file = files.find(path); file != files.end()) file->second.writer = writer;
  };
  std::map<FileId, std::string> paths;
  std::set<FileId> ids;
  for (const auto &[path, file] : files)
    if (struct stat st{}; ::stat((target_.files + path).c_str(), &st) == 0) {
      paths[{st.st_dev, st.st_ino}] = path;
      ids.insert({st.st_dev, st.st_ino});
    }
  for (const FileWriter &w : writers_of(ids, {})) note(paths[w.file], name_of(w.process));
  for (const Process &p : target_.processes)
    for (const ProcMapping &m : mappings_of(p.pid))
      if (can_write(p.pid, m)) note(m.path, "the program");
  for (const auto &[pid, descriptors] : table)
    for (const Descriptor &d : descriptors)
      if (d.writable()) note(d.target, "the program");
}

std::string CarriedChoice::why_not(const std::string &path, const Candidate &file,
                                   const struct stat &st) const {
  if (!file.writer.empty()) return fmt::format("{} can write to it", file.writer);
  if (st.st_mode & (S_ISUID | S_ISGID | S_ISVTX))
    return fmt::format("its mode is {:o}", st.st_mode & 07777);
  if (is_file_of_kernel_driver(path)) return "it belongs to the driver of this machine";
  bool small = static_cast<u64>(st.st_size) <= options_.data_bytes;
  if (small || file.has_code || is_supplied(path)) return {};
  return fmt::format("it has no code, and more than {} (--with-files-up-to)",
                     human_bytes(options_.data_bytes));
}

Result<> CarriedChoice::choose(const std::string &path, const Candidate &file, const Take &take,
                               const Leave &leave) const {
  errno = 0;
  UniqueFd fd = open_regular(target_.files + path);
  bool forbidden = !fd && errno == EACCES;
  struct stat st {};
  bool is_it = fd && ::fstat(fd.get(), &st) == 0 && file.is(st);
  if (!is_it && !forbidden)
    return is_supplied(path) ? fail("it is missing, and the image would lack it") : Result<>();
  std::string why =
      forbidden ? fmt::format("uid {} may not read it", user_.uid) : why_not(path, file, st);
  if (why.empty()) return take(path, fd.get(), st);
  if (is_supplied(path)) return fail("{}, and the image would lack it", why);
  leave(path, std::move(why));
  return {};
}

}  // namespace ckpt::tools
