// SPDX-License-Identifier: Apache-2.0
//
// Eviction and resumption: the suspend and wake of the life cycle, on behalf of the Manager.
//
//   Manager    Signal           Suspend                     Migrate(gpu)
//   program           Query              … SuspendDone                    … MigDone
//
// The program is *ready* when each API that it uses has joined the agent; before that a suspend
// would leave the starting API behind. suspend() and resume() take long and are called on the
// agent's thread without the client's mutex, which guards everything else.
#pragma once

#include <chrono>
#include <string>

#include "agent/lifecycle/lifecycle.h"
#include "common/base/clock.h"

namespace ckpt::manager_client {

class Eviction {
 public:
  explicit Eviction(agent::Lifecycle &lifecycle) : lifecycle_(lifecycle) {}

  void set_ready(bool ready) { ready_ = ready; }
  void signal() { signalled_ = true; }
  void forget_signal() { signalled_ = false; }
  // Whether a Signal is to be answered now.
  bool take_signal() { return ready_ && std::exchange(signalled_, false); }

  // An order to suspend has arrived; false: the program is not ready.
  bool begin();
  // The order failed. A repeated reason is logged as a warning only once.
  void cannot_suspend(const std::string &why);
  void suspended(u64 kept, bool on_disk);
  void cannot_resume(const std::string &why);
  // By the Manager, or by the client without a Manager.
  void resumed();
  // By a tool.
  void taken_over() { evicted_ = false; }

  bool evicted() const { return evicted_; }
  // The program runs on its device and no order to leave it is being executed.
  bool on_device() const;
  u64 kept() const { return kept_; }  // bytes of contents
  bool on_disk() const { return on_disk_; }
  // Without a Manager: the time of the next attempt to resume.
  Clock::time_point next_attempt() const { return next_attempt_; }
  void schedule_attempt();

  // ---- the agent's thread, without the lock

  // Returns the bytes of contents. An empty folder stands for host memory.
  Result<u64> suspend(const std::string &folder, protocol::Depth depth);
  // What was suspended at Depth::Memory is given back, if anything is.
  Result<> deepen();
  bool stays() const { return lifecycle_.depth() == protocol::Depth::Memory; }
  // On `gpu`, a UUID; empty: on the same device. `apis` are those that the Manager manages; the
  // others return to their old devices.
  Result<> resume(const std::string &gpu, u32 apis);

 private:
  agent::Lifecycle &lifecycle_;
  bool ready_ = false, signalled_ = false;
  bool in_progress_ = false;  // an order to suspend is being executed
  bool evicted_ = false;      // suspended by order of the Manager
  u64 kept_ = 0;
  bool on_disk_ = false;
  bool warned_suspend_ = false, warned_resume_ = false;  // since the last success
  Clock::time_point next_attempt_{};
};

}  // namespace ckpt::manager_client
