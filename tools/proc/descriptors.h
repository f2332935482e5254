// SPDX-License-Identifier: Apache-2.0
//
// The open files and the mappings of another process, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/bytes.h"

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
  std::string
      target;  // "/a/b", "pipe:[7]", "socket:[8]", "anon_inode:[eventpoll]", "/memfd:x (deleted)"
  int flags = 0;  // as open(2) took them
  u64 inode = 0;
  u64 device = 0;  // of the file system
  u64 rdev = 0;    // of a device file
  u64 size = 0;
  bool deleted = false;
  i64 mtime_ns = 0;

  bool readable() const;
  bool writable() const;
};

std::vector<Descriptor> descriptors_of(pid_t pid);
const char *kind_name(Descriptor::Kind kind);

struct Mapping {
  u64 start = 0;
  u64 end = 0;
  std::string permissions;
  u64 inode = 0;
  std::string path;  // "" when anonymous
  bool executable() const { return permissions.size() > 2 && permissions[2] == 'x'; }
  bool shared() const { return permissions.size() > 3 && permissions[3] == 's'; }
};

std::vector<Mapping> mappings_of(pid_t pid);

}  // namespace ckpt::tools
