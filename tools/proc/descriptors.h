// SPDX-License-Identifier: Apache-2.0
//
// The open files and the mappings of another process, from /proc.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/unique_fd.h"
#include "common/proc/maps.h"
#include "common/proc/status.h"

namespace ckpt::tools {

struct Descriptor {
  enum class Kind {
    File,
    Folder,
    Pipe,
    Fifo,
    Terminal,
    CharDevice,
    BlockDevice,
    Socket,
    Anonymous
  };
  int fd = -1;
  Kind kind = Kind::Anonymous;
  // "/a/b", "pipe:[7]", "socket:[8]", "anon_inode:[eventpoll]" or "/memfd:x (deleted)"
  std::string target;
  int flags = 0;  // of open(2)
  u64 inode = 0;
  u64 device = 0;  // of the file system
  u64 rdev = 0;    // of a device file
  u64 size = 0;
  bool deleted = false;
  i64 mtime_ns = 0;
  int terminal_index = -1;  // of the master of a pseudo-terminal: N of its /dev/pts/N
  bool semaphore = false;   // an eventfd with EFD_SEMAPHORE
  long file_system = 0;     // its magic number (statfs(2))
  int mount = -1;           // the mount through which it was opened

  // A file of procfs, sysfs and the like: the kernel makes its contents when they are read.
  bool made_by_kernel() const;
  bool readable() const;
  bool writable() const;
};

// The N of /dev/pts/N for the device number of a pseudo-terminal's slave, otherwise -1.
int terminal_index_of(u64 rdev);

std::vector<Descriptor> descriptors_of(pid_t pid);
// The mounts that the process sees (proc_pid_mountinfo(5)). A file that was opened before the
// process entered its mount namespace belongs to none of them.
std::set<int> mounts_of(pid_t pid);
// The same, or nothing if a root that is no mount itself (chroot(2)) hides the mount of that root
// and perhaps others.
std::set<int> all_mounts_of(pid_t pid);
const char *kind_name(Descriptor::Kind kind);

using proc::duplicate_descriptor;
using proc::mappings_of;

}  // namespace ckpt::tools
