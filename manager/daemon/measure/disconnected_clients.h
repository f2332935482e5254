// SPDX-License-Identifier: Apache-2.0
//
// Programs that have disconnected but still run: because a tool is checkpointing them, or because
// they run without a Manager. On unmeasured devices, the memory that they last reported still
// counts as used.
#pragma once

#include <vector>

#include "common/base/unique_fd.h"
#include "manager/policy/gpu.h"

namespace ckpt::manager {

class DisconnectedClients {
 public:
  // The program of process `pid` has disconnected, and reported that it holds `bytes` on `gpu`. It
  // replaces what was remembered of the two.
  void add(pid_t pid, GpuIndex gpu, u64 bytes);
  // It has connected again.
  void remove(pid_t pid);
  // What these programs hold on `gpu`, as far as they are alive.
  u64 bytes(GpuIndex gpu);

 private:
  struct Client {
    pid_t pid;
    UniqueFd process;
    GpuIndex gpu;
    u64 bytes;
  };
  std::vector<Client> clients_;
};

}  // namespace ckpt::manager
