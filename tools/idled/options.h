// SPDX-License-Identifier: Apache-2.0
//
// The options of ckpt-idled: the same names on the command line and in the configuration file.
#pragma once

#include "common/managed/messages.h"
#include "tools/command_line.h"
#include "tools/idled/daemon.h"

namespace ckpt::tools {

// As they were written. Times are in seconds.
struct IdledOptions {
  double cpu = 30, quiet = 1, interval = 0.25;
  u64 device_memory = 1u << 20;
  std::string guests, guests_cgroup, memory_source = "auto", nvml, manager, samples, record;
  std::string hours, slurm, partition = "owner", folder, replay;
  unsigned input = 0, celsius = 0;
  bool battery = false;
  bool off = false, on = false, status = false, json = false, withdraw = false;

  std::string run_folder() const { return folder.empty() ? "/run/ckpt-idled" : folder; }
  // Of the off switch, which outlasts a boot.
  std::string off_folder() const {
    return (folder.empty() ? "/var/lib/ckpt-idled" : folder) + "/off";
  }
};

void add_idled_options(CommandLine &line, IdledOptions &o);
Result<IdledSettings> idled_settings(const IdledOptions &o);

}  // namespace ckpt::tools
