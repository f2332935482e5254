// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of this machine and their free memory, asked in another process.
//
// The problem. Before the driver's Restore, the free memory of the devices must be known, because a
// Restore that runs out of memory is final. The driver is checkpointed at that time: it answers no
// call, and NVML in this process waits for a lock that the driver holds.
//
// How it works. The session's keeper starts a ckpt-cuda-proxy, which asks NVML (proxy/nvml.h) each
// time that it is asked. Its start takes a while, so a checkpoint starts it before it is needed.
// Where there is no keeper, or one of an earlier version, nothing is known.
#pragma once

#include <chrono>
#include <vector>

#include "common/base/unique_fd.h"
#include "libckpt-cuda/devices/node_gpus.h"

namespace ckpt::cuda {

class OutsideGpus {
 public:
  // Does not wait for the process. Nothing happens if it was called before.
  void start();
  // Calls start(). Empty: not known, and this stays so until end().
  std::vector<GpuMemory> ask();
  // No connection is in this process any more.
  void end() {
    proxy_.reset();
    failed_ = false;
  }

 private:
  Result<> greet();
  Result<std::vector<GpuMemory>> answer();

  UniqueFd proxy_;
  bool greeted_ = false;  // the proxy has said that it serves
  bool failed_ = false;
};

}  // namespace ckpt::cuda
