// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/grown_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "common/base/log.h"
#include "common/base/new_file.h"
#include "common/proc/file.h"
#include "tools/manifest/file_checks.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/file_writers.h"
#include "tools/proc/process.h"

namespace ckpt::tools {
namespace {

struct Cut {
  std::string path;
  UniqueFd file;  // the program's own description
  u64 size;
};

Result<> refuse_other_writers(const std::vector<Cut> &cuts, const GrownFiles &grown,
                              const std::vector<Process> &tree) {
  std::map<FileId, std::string> unnamed;
  std::set<FileId> files;
  std::set<pid_t> own{::getpid()};
  for (const Process &p : tree) own.insert(p.pid);
  for (const Cut &c : cuts) {
    struct stat st {};
    if (grown.cut.contains(c.path) || ::fstat(c.file.get(), &st) != 0) continue;
    files.insert({st.st_dev, st.st_ino});
    unnamed[{st.st_dev, st.st_ino}] = c.path;
  }
  for (const FileWriter &w : writers_of(files, own))
    return fail_with_hint(fmt::format("cannot truncate {}: process {} has opened it for writing",
                                      unnamed[w.file], w.process.pid),
                          "end that process, or use --append-files");
  return {};
}

// What --truncate-file cuts may be of value as it is now. By a description of its own, because the
// program's has the position at which the program goes on.
Result<> keep_copy(const Cut &c) {
  UniqueFd in(::open(proc::fd_path(proc::kSelf, c.file.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!in) return fail_errno("cannot read {} to keep a copy of it", c.path);
  Result<std::string> copy = copy_to_unique_file(in.get(), c.path + ".ckpt-", ".before-cut");
  if (!copy)
    return fail_with_hint(fmt::format("{} is not truncated, because no copy of it can be kept: {}",
                                      c.path, copy.error().what),
                          "make room in its folder, or use --append-files");
  log::warn("{} is truncated; a copy of it is {}", c.path, *copy);
  return {};
}

Result<> cut(const std::vector<Cut> &cuts, const GrownFiles &grown) {
  std::set<std::string> copied;
  for (const Cut &c : cuts)
    if (grown.cut.contains(c.path) && copied.insert(c.path).second) CKPT_CHECK(keep_copy(c));
  for (const Cut &c : cuts)
    if (::ftruncate(c.file.get(), static_cast<off_t>(c.size)) != 0)
      return fail_errno("cannot truncate {}", c.path);
  return {};
}

}  // namespace

void warn_of_results(const ImageManifest &m, const GrownFiles &grown) {
  std::vector<std::string> again;
  for (const ImageManifest::File &f : m.files)
    if (grown.of(f) == GrownFiles::AppendOutput && has_grown(f) && !is_output(m, f))
      again.push_back(f.path);
  if (again.empty()) return;
  log::warn(
      "what has been added to these files since the image is written again, from where the program "
      "was in the image: {}",
      fmt::format("{}", fmt::join(again, ", ")));
}

Result<> truncate_grown_files(pid_t root, const ImageManifest &m, const GrownFiles &grown) {
  std::map<std::string, u64> sizes;
  for (const ImageManifest::File &f : m.files)
    if (grown.of(f) == GrownFiles::Truncate && has_grown(f)) sizes[f.path] = f.size;
  if (sizes.empty()) return {};
  std::vector<Process> tree = ProcessTable::read().tree(root);
  std::vector<Cut> cuts;
  for (const Process &p : tree)
    for (const Descriptor &d : descriptors_of(p.pid)) {
      auto it = sizes.find(d.target);
      if (it == sizes.end() || d.kind != Descriptor::Kind::File || !d.writable()) continue;
      cuts.push_back({d.target, duplicate_descriptor(p.pid, d.fd), it->second});
      if (!cuts.back().file) return fail_errno("cannot truncate {}", d.target);
    }
  CKPT_CHECK(refuse_other_writers(cuts, grown, tree));
  return cut(cuts, grown);
}

}  // namespace ckpt::tools
