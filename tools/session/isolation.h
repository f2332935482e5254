// SPDX-License-Identifier: Apache-2.0
//
// Isolated programs (ckpt-run --isolate): an ordinary user's program in namespaces of its own, in
// which this user has the rights that CRIU needs, without ckpt-helper and without root.
//
//   user      maps the user and the group to themselves and nothing else (user_namespaces(7)). Its
//             owner has all capabilities inside, of which the program gets none (capabilities(7)).
//   network   with a loopback device only: CRIU may stop and repair its connections.
//
// As root's programs, such a program has an IPC namespace, too (run/main.cc).
//
// Keeper, tools and CRIU are members while they work on such a program. A restore makes the
// namespaces anew. It needs PID and mount namespaces, too (restore/stem.h): only in a PID namespace
// of one's own PIDs may be chosen.
#pragma once

#include <sys/types.h>

#include <functional>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::tools {

// The inode of the machine's first user namespace (PROC_USER_INIT_INO of the kernel's proc_ns.h).
inline constexpr u64 kFirstUserNamespace = 0xEFFFFFFD;

// The inode of the user namespace in which the process's namespace `name` ("net", "pid") was made.
// 0: it is outside of ours, as that of the machine is (ioctl_ns(2)), or it cannot be read.
u64 owner_of_namespace(pid_t pid, const char *name);

// Moves this process, which has one thread and is not root's, into such namespaces.
Result<> isolate();

// Whether this process is in such namespaces.
bool is_isolated();
// Whether that process is. In a user namespace alone, as Apptainer makes one, a program has the
// machine's network, which a restore would take from it: it is not isolated.
bool is_isolated(pid_t pid);

// If the program of that process is isolated by the user of this tool, moves this process, which
// has one thread, into its user and network namespaces. Fails if an isolated program has started
// it.
Result<> enter_isolation_of(pid_t pid);

// What CRIU and the tools get of the capabilities there, as far as this process has them; 0: it is
// not in such a namespace. Without SETUID and SYS_RESOURCE: a CRIU that has the first becomes uid 0
// in a restore (prepare_userns_creds() of criu/namespaces.c), which is not mapped. One that has the
// second raises limits, which needs the right of the machine.
u64 rights_in_isolation();
// For the child of an isolated tool that becomes another tool of ckpt (Spawn::in_child): makes the
// exec keep the capabilities in the namespace. Otherwise does nothing.
std::function<void()> keep_isolation();

}  // namespace ckpt::tools
