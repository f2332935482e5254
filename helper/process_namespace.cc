// SPDX-License-Identifier: Apache-2.0
#include "helper/process_namespace.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/proc/file.h"
#include "common/proc/status.h"

namespace ckpt::helper {

Result<UniqueFd> open_namespace(pid_t process, const char *name) {
  CKPT_TRY(UniqueFd opened, proc::open(process, fmt::format("ns/{}", name), O_RDONLY));
  // Fails where the user namespace is outside of ours.
  UniqueFd owner(::ioctl(opened.get(), NS_GET_USERNS));
  if (!owner || inode_of(owner) != proc::namespace_inode(::getpid(), "user"))
    return fail_with_hint(fmt::format("process {} is in a {} namespace that a user has made, in "
                                      "which nothing may run with additional rights",
                                      process, name),
                          "run this command inside of that namespace");
  return opened;
}

u64 inode_of(const UniqueFd &opened) {
  struct stat st {};
  return ::fstat(opened.get(), &st) == 0 ? st.st_ino : 0;
}

}  // namespace ckpt::helper
