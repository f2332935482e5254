// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/running_files.h"

#include <sys/stat.h>

#include "common/proc/file.h"
#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

// Not an unlinked file that has another name: CRIU would link it first.
void add_open_file(pid_t pid, const Descriptor &d, CriuFiles &files) {
  struct stat st {};
  bool has_name = d.target.starts_with('/') && !d.target.starts_with("/memfd:");
  if (!has_name || d.made_by_kernel() || ::stat(proc::fd_path(pid, d.fd).c_str(), &st) != 0 ||
      (d.deleted && st.st_nlink > 0))
    return;
  u32 id = static_cast<u32>(files.files.size() + 1);
  CriuFiles::File &f = files.files[id];
  f.path = d.target;
  f.flags = static_cast<u32>(d.flags);
  if (!d.deleted) return;
  f.path = f.path.substr(0, f.path.rfind(proc::kUnlinked));
  f.ghost = id;
  files.ghosts[id] = {st.st_uid, st.st_gid, st.st_mode};
}

}  // namespace

CriuFiles files_as_criu_saves_them(const Target &target) {
  CriuFiles files;
  files.complete = false;
  for (const Process &p : target.processes) {
    for (const Descriptor &d : descriptors_of(p.pid)) add_open_file(p.pid, d, files);
    for (const ProcMapping &m : mappings_of(p.pid))
      if (m.permissions.ends_with('p') && !m.path.starts_with("/dev/"))
        files.processes[p.ns_pid()].mappings.push_back({m.begin, m.end, 0, true});
  }
  return files;
}

}  // namespace ckpt::tools
