// SPDX-License-Identifier: Apache-2.0
//
// The options of ckptd: the same names on the command line and in the configuration file.
#pragma once

#include <string>

#include "manager/daemon/daemon.h"
#include "tools/command_line.h"

namespace ckpt::tools {

// The options as they were written. Times are in seconds, sizes in bytes.
struct CkptdOptions {
  std::string socket, users = "own", nvml, profiles, journal, disk_folder, victim = "requester",
                      placement = "demand", node, opencl_devices = "gpus", metrics = "0";
  double reconnect_timeout = 10, startup_delay = 0.5;
  double starvation_limit = 30, pairing_limit = 300, progress_interval = 1;
  double min_residency = 1, eviction_timeout = 60, rebalance_after = 10, time_slice = 0;
  unsigned programs_per_gpu = 4, contextless_per_gpu = 4;
  u64 context_memory = 64ull << 20, credit_memory = 256ull << 20, gpu_memory = 0,
      program_memory = 0, host_memory = 0, disk_memory = 0;
};

void add_ckptd_options(CommandLine &line, CkptdOptions &o);
Result<manager::DaemonOptions> daemon_options(const CkptdOptions &o);

}  // namespace ckpt::tools
