// SPDX-License-Identifier: Apache-2.0
//
// Userfaultfds for `ckpt-restore --lazy` (docs/LAZY.md): with one, the caller's keeper gives a
// restored program its memory when it is needed. Only the process that owns the memory can make it.
// For accesses in system calls it needs /dev/userfaultfd, which is root's, and for reports of forks
// another process needs CAP_SYS_PTRACE. docs/HELPER.md says what a user gains by that, so the
// administrator decides (ckpt-helper --lazy).
//
// Two processes do it. The one in helper/visit.h runs as the caller, so the kernel lets it enter
// only what the caller could trace. This one, with root's rights, enters no process: it takes the
// userfaultfd, and looks that nothing else was left.
#pragma once

#include <sys/types.h>

#include <set>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "helper/identity.h"

namespace ckpt::helper {

// Agrees with the kernel on which events of a program's memory are reported.
Result<> agree_on_events(int userfaultfd);
// Fails where this process cannot get such userfaultfds for others.
Result<> check_userfaultfds();

class Userfaultfds {
 public:
  // For processes in the PID namespace of the stem, which `identity` could trace.
  Userfaultfds(pid_t stem, const Identity &identity) : stem_(stem), identity_(identity) {}

  // Once for each process. It must be stopped, and has no descriptor of it afterwards.
  Result<UniqueFd> make(pid_t process);

 private:
  Result<UniqueFd> take(pid_t process, int visitor, int device) const;

  pid_t stem_;
  const Identity &identity_;
  std::set<pid_t> visited_;
};

}  // namespace ckpt::helper
