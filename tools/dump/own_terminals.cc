// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/own_terminals.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/base/unique_fd.h"
#include "common/proc/file.h"

namespace ckpt::tools {

namespace {

// Without a master, a slave cannot be opened (EIO). CRIU restores it under its number. The program
// may put another file under this descriptor at any time, and to open that could block or change
// something: so the file is found first (O_PATH), and opened only if it is that terminal.
bool has_no_master(pid_t pid, const Descriptor &d) {
  UniqueFd found(::open(proc::fd_path(pid, d.fd).c_str(), O_PATH | O_CLOEXEC));
  struct stat st {};
  if (!found || ::fstat(found.get(), &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != d.rdev)
    return false;
  UniqueFd opened(::open(proc::fd_path(proc::kSelf, found.get()).c_str(),
                         O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  return !opened && errno == EIO;
}

}  // namespace

OwnTerminals::OwnTerminals(const DescriptorTable &table) {
  for (const auto &[pid, descriptors] : table)
    for (const Descriptor &d : descriptors) {
      if (d.terminal_index >= 0) indices_.insert(d.terminal_index);
      if (int n = terminal_index_of(d.rdev);
          d.kind == Descriptor::Kind::Terminal && n >= 0 && has_no_master(pid, d))
        indices_.insert(n);
    }
}

bool OwnTerminals::has(const Process &process, const Descriptor &d) const {
  if (d.terminal_index >= 0) return true;               // a master
  const bool is_controlling = d.rdev == makedev(5, 0);  // /dev/tty
  return indices_.contains(terminal_index_of(is_controlling ? process.terminal : d.rdev));
}

}  // namespace ckpt::tools
