// SPDX-License-Identifier: Apache-2.0
//
// With an IPC namespace, CRIU restores its limits (kernel.sem, kernel.shmmax …; criu/ipc_ns.c). In
// a user namespace without uid 0 nothing may write them (ipc_permissions() of the kernel's
// ipc/ipc_sysctl.c), so they have the machine's values before a dump and after a restore. While
// CRIU restores an isolated program, files that take what is written stand in their place.
//
// A mount on such a file itself would not do: each IPC namespace has its own entries in
// /proc/sys/kernel, and CRIU writes in the new one. The folder is the same for all.
#pragma once

#include <string>

#include "common/base/result.h"

namespace ckpt::tools {

class IpcLimits {
 public:
  IpcLimits() = default;
  IpcLimits(const IpcLimits &) = delete;
  ~IpcLimits();

  // Covers two folders of /proc/sys in this process's mount namespace, which nothing else uses yet.
  // All else there is still seen, by links into a second mount of /proc in `folder`.
  Result<> cover(const std::string &folder);

 private:
  std::string behind_;  // where /proc is seen as before; "": nothing is covered
};

}  // namespace ckpt::tools
