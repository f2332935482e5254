// SPDX-License-Identifier: Apache-2.0
//
// Programs that have hung up and live on: a tool is with them, or they went on alone. What nobody
// measures must not be taken for free because nobody is there to say that he has it.
#pragma once

#include <vector>

#include "common/base/unique_fd.h"
#include "manager/policy/state.h"

namespace ckpt::manager {

class DisconnectedClients {
 public:
  // The program of process `pid` is gone, and has said that it holds so much there. What it said
  // of that GPU before is forgotten.
  void add(pid_t pid, GpuIndex gpu, u64 bytes);
  // It is back.
  void remove(pid_t pid);
  // What they hold there, as far as they live.
  u64 bytes(GpuIndex gpu);

 private:
  struct One {
    pid_t pid;
    UniqueFd process;
    GpuIndex gpu;
    u64 bytes;
  };
  std::vector<One> all_;
};

}  // namespace ckpt::manager
