// SPDX-License-Identifier: Apache-2.0
#include "tools/session/in_turns.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "common/base/clock.h"

namespace ckpt::tools {
namespace {

// For one that was cancelled because its user's time was over.
constexpr std::chrono::seconds kUndoTime{30};
constexpr const char *kTimeIsOver = "the time for the programs of its user is over";

}  // namespace

InTurns::InTurns(std::vector<uid_t> users, Turns::Limits limits, Work work)
    : turns_(std::move(users), limits), work_(std::move(work)) {}

void InTurns::run(const std::function<bool()> &stops) {
  while (!turns_.all_ended() && !(stops() && running_.empty())) {
    while (!stops()) {
      std::optional<size_t> next = turns_.next(Clock::now());
      if (!next) break;
      begin(*next);
    }
    for (const Turns::GivenUp &g : turns_.give_up(Clock::now())) give_up(g);
    wait_for_one();
  }
}

void InTurns::begin(size_t program) {
  Result<pid_t> pid = work_.start(program);
  if (!pid) {
    turns_.ended(program);
    return work_.failed(program, pid.error().text());
  }
  Child child{program, *pid, {}, {}};
  // Our child has its PID until we have waited for it.
  if (Result<ProcessHandle> handle = ProcessHandle::open(*pid)) child.handle = std::move(*handle);
  std::lock_guard lock(mutex_);
  running_.push_back(std::move(child));
}

void InTurns::give_up(const Turns::GivenUp &g) {
  if (!g.under_way) return work_.failed(g.program, kTimeIsOver);
  std::lock_guard lock(mutex_);
  for (Child &child : running_) {
    if (child.program != g.program) continue;
    child.handle.signal(SIGTERM);
    child.killed_at = Clock::now() + kUndoTime;
  }
}

// Returns when a child has ended, or earlier.
void InTurns::wait_for_one() {
  if (running_.empty()) return;
  std::vector<pollfd> ends;
  for (const Child &child : running_) ends.push_back({child.handle.descriptor(), POLLIN, 0});
  if (::poll(ends.data(), ends.size(), milliseconds_to_wake()) < 0) return;
  kill_late();
  int status = 0;
  while (pid_t pid = ::waitpid(-1, &status, WNOHANG)) {
    if (pid < 0) return;
    child_ended(pid, status);
  }
}

// Also when a signal may have come.
int InTurns::milliseconds_to_wake() const {
  constexpr std::chrono::milliseconds kMost{1000};
  std::optional<Turns::Time> wake = turns_.wake(Clock::now());
  for (const Child &child : running_)
    if (child.killed_at) wake = std::min(wake.value_or(*child.killed_at), *child.killed_at);
  if (!wake) return static_cast<int>(kMost.count());
  auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake - Clock::now());
  return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), kMost).count());
}

void InTurns::kill_late() {
  for (Child &child : running_) {
    if (!child.killed_at || Clock::now() < *child.killed_at) continue;
    kill(child);
    child.killed_at = Clock::now() + kUndoTime;
  }
}

// The children of a restore may be the user's, who can stop them. Those of a dump must not be
// killed: CRIU would leave its code in the program.
void InTurns::kill(const Child &child) const {
  std::vector<Process> tree;
  if (work_.kill_children) tree = ProcessTable::read().tree(child.pid);
  if (Result<std::vector<ProcessHandle>> all = handles_of_tree(child.pid, tree); all)
    for (const ProcessHandle &p : *all) p.signal(SIGKILL);
  child.handle.signal(SIGKILL);
}

void InTurns::child_ended(pid_t pid, int status) {
  std::unique_lock lock(mutex_);
  auto it = std::ranges::find(running_, pid, &Child::pid);
  if (it == running_.end()) return;
  Child child = std::move(*it);
  running_.erase(it);
  lock.unlock();
  bool succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (child.killed_at && !succeeded) {
    turns_.ended(child.program);
    return work_.failed(child.program, kTimeIsOver);
  }
  if (work_.ended(child.program, status)) return begin(child.program);
  turns_.ended(child.program);
}

void InTurns::pass_on(int signal) {
  std::lock_guard lock(mutex_);
  for (const Child &child : running_) child.handle.signal(signal);
}

}  // namespace ckpt::tools
