// SPDX-License-Identifier: Apache-2.0
//
// The program between the end of CRIU and the end of the dump: stopped, whatever signals it gets.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/net/repair_mode.h"
#include "tools/proc/held_processes.h"
#include "tools/proc/process_handle.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class HeldProgram {
 public:
  explicit HeldProgram(Target &target) : target_(target) {}

  // The target was found. Its processes that are stopped now stay so.
  void note_found() { stopped_before_ = stopped_in(target_.processes); }
  const std::set<pid_t> &stopped_before() const { return stopped_before_; }

  // CRIU has left it stopped, or perhaps a part of it.
  void note_stopped() { stopped_ = true; }
  bool is_stopped() const { return stopped_; }
  // The dump of the host side has failed: waits a moment for a stop that CRIU may have caused.
  void expect_stop();
  Result<> hold();
  // Fails if a process was continued, because the image would be older than what it has done since.
  Result<> check_held();
  bool was_continued() const { return was_continued_; }

  // Finds its processes again: some may have started and ended until CRIU stopped them.
  Result<> find_processes();
  // So that kill() meets none that has got the PID of another one.
  Result<> open_handles();
  // What has been read of a process that is killed meanwhile is incomplete.
  Result<> check_none_killed() const;

  // Continues it, if it is stopped.
  void undo(const ReuseOfSockets &reuse);
  void go_on(const ReuseOfSockets &reuse);
  void kill() const;
  // Until its PIDs are free.
  Result<> wait_for_end(const std::string &image);

 private:
  bool root_has_ended();

  Target &target_;
  std::set<pid_t> stopped_before_;
  std::vector<ProcessHandle> handles_;
  HeldProcesses held_;          // from hold() until the program goes on or has ended
  bool stopped_ = false;        // CRIU has left the process tree stopped
  bool was_continued_ = false;  // by another process, in the middle of the checkpoint
};

}  // namespace ckpt::tools
