// SPDX-License-Identifier: Apache-2.0
//
// The process that has a restored, stopped program make a userfaultfd. It runs as the caller and
// has no capability, so the kernel decides which processes it may enter (ptrace(2)): no setuid
// program, and none of another user. It has one thing that the caller must not get: an open
// descriptor of /dev/userfaultfd, with which every program of the caller could make userfaultfds.
// That descriptor is in the program for the time of one call, meanwhile
//
//   all threads of the program are held, and each call is compared when it is entered, so that
//     nothing else runs there;
//   the program cannot be traced (PR_SET_DUMPABLE), so that no other process takes it from there
//     (pidfd_getfd(2));
//   no other process shares its memory or its descriptors (kcmp(2));
//   the program is killed if this process is (PTRACE_O_EXITKILL).
#pragma once

#include <sys/types.h>

#include "common/base/bytes.h"
#include "helper/identity.h"

namespace ckpt::helper {

struct Visit {
  pid_t process = 0;
  pid_t stem = 0;         // the first process of the PID namespace in which `process` must be
  u64 pid_namespace = 0;  // the inode of that namespace
  int device = -1;        // /dev/userfaultfd
  int asker = -1;         // a connection with the process that has started this one
};

// Sends the number of the userfaultfd in the process (Type::Userfaultfd), or the reason why there
// is none (Type::Refused). The process keeps it until the asker has answered with one byte; if the
// asker hangs up instead, the process is killed. Exit code 0: the process is as it was.
[[noreturn]] void visit(const Visit &v, const Identity &identity);

}  // namespace ckpt::helper
