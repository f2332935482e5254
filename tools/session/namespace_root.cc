// SPDX-License-Identifier: Apache-2.0
#include "tools/session/namespace_root.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "common/proc/status.h"
#include "helper/process_namespace.h"
#include "tools/session/isolation.h"

namespace ckpt::tools {

bool is_namespace_root() {
  u64 user = proc::namespace_inode(::getpid(), "user");
  return ::geteuid() == 0 && user != 0 && user != kFirstUserNamespace;
}

bool may_choose_pids() {
  return !is_namespace_root() ||
         owner_of_namespace(::getpid(), "pid") == proc::namespace_inode(::getpid(), "user");
}

}  // namespace ckpt::tools
