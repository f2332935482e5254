// SPDX-License-Identifier: Apache-2.0
//
// ckpt-idled's loop: reads the sensors, decides by idle/idleness, logs what changes, and tells
// Slurm.
#pragma once

#include <csignal>

#include "common/base/log_limit.h"
#include "idle/idleness.h"
#include "tools/idled/owner_job.h"
#include "tools/idled/sensors.h"
#include "tools/idled/status.h"

namespace ckpt::tools {

struct IdledSettings {
  idle::Settings idle;
  std::chrono::microseconds interval{250'000};
  std::optional<OwnerJobOptions> slurm;
  std::string record;  // a file to which all samples are appended; "": none
};

class IdleDaemon {
 public:
  IdleDaemon(IdledSettings settings, std::unique_ptr<Sensors> sensors, OffSwitch off,
             StatusFile status)
      : settings_(std::move(settings)),
        sensors_(std::move(sensors)),
        off_(std::move(off)),
        status_(std::move(status)),
        idleness_(settings_.idle) {
    if (settings_.slurm) job_.emplace(*settings_.slurm);
  }

  // Runs until a signal sets `stop`, or a sensor fails. For Slurm the machine is busy then.
  Result<> run(const volatile sig_atomic_t &stop);

 private:
  Result<> watch(const volatile sig_atomic_t &stop);
  Result<> round(idle::Time now);
  Result<Seen> look(idle::Time now);
  void say(const idle::Transition &t);
  void tell_slurm(idle::Time now);
  Result<> record(const idle::Sample &sample);

  const IdledSettings settings_;
  std::unique_ptr<Sensors> sensors_;
  OffSwitch off_;
  StatusFile status_;
  idle::Idleness idleness_;
  std::optional<OwnerJob> job_;
  LogLimit lines_, failures_;
  idle::Time asked_{0}, wrote_{0};  // Slurm, the status
  bool slurm_agrees_ = false, began_ = false;
  IdledStatus seen_;
  UniqueFd record_;
};

}  // namespace ckpt::tools
