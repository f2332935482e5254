// SPDX-License-Identifier: Apache-2.0
//
// Runs one child process for each program, a ckpt-dump or a ckpt-restore, in turns of the programs'
// users (turns.h). What is not done in its user's time is cancelled by SIGTERM, and killed if that
// does not help.
#pragma once

#include <functional>
#include <mutex>

#include "common/base/result.h"
#include "tools/proc/process_handle.h"
#include "tools/session/turns.h"

namespace ckpt::tools {

class InTurns {
 public:
  // Programs are known by their places in `users`.
  struct Work {
    std::function<Result<pid_t>(size_t program)> start;
    // With the status of waitpid(2). True: the program's turn goes on, with another start.
    std::function<bool(size_t program, int status)> ended;
    std::function<void(size_t program, const std::string &why)> failed;  // to start, or in time
    bool kill_children = false;  // of one that SIGTERM does not end
  };
  InTurns(std::vector<uid_t> users, Turns::Limits limits, Work work);

  // Until all are done. After `stops` has returned true, it begins with no other.
  void run(const std::function<bool()> &stops);
  // Sends a signal to all that are under way. For any thread.
  void pass_on(int signal);

 private:
  struct Child {
    size_t program;
    pid_t pid;
    ProcessHandle handle;
    std::optional<Turns::Time> killed_at;  // if it has not ended by then
  };
  void begin(size_t program);
  void give_up(const Turns::GivenUp &g);
  void wait_for_one();
  int milliseconds_to_wake() const;
  void kill_late();
  void kill(const Child &child) const;
  void child_ended(pid_t pid, int status);

  Turns turns_;
  Work work_;
  std::mutex mutex_;  // guards running_ against pass_on()
  std::vector<Child> running_;
};

}  // namespace ckpt::tools
