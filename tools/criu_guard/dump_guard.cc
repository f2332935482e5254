// SPDX-License-Identifier: Apache-2.0
#include "tools/criu_guard/dump_guard.h"

#include <signal.h>
#include <time.h>

#include <atomic>

#include "common/base/clock.h"
#include "common/base/shortage.h"
#include "tools/criu_guard/programs_below.h"
#include "tools/dump/agents.h"
#include "tools/dump/suspend.h"
#include "tools/proc/freezer.h"

namespace ckpt::tools {
namespace {

using std::chrono::milliseconds;

// Where CRIU has no time limit: as ckpt-dump --suspend.
constexpr int kSecondsWithoutLimit = 60;

// Cancels the work of this process when the time is over.
class TimeLimit {
 public:
  explicit TimeLimit(milliseconds limit) : end_(Clock::now() + limit), any_(limit.count() > 0) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGTERM;
    constexpr long kPerSecond = 1000, kNanoseconds = 1'000'000;
    itimerspec when{{}, {limit.count() / kPerSecond, limit.count() % kPerSecond * kNanoseconds}};
    started_ = any_ && ::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
    if (started_) ::timer_settime(timer_, 0, &when, nullptr);
  }
  ~TimeLimit() {
    if (started_) ::timer_delete(timer_);
  }
  TimeLimit(const TimeLimit &) = delete;
  TimeLimit &operator=(const TimeLimit &) = delete;
  bool is_over() const { return any_ && Clock::now() >= end_; }

 private:
  Clock::time_point end_;
  bool any_, started_ = false;
  timer_t timer_{};
};

Result<> too_late(milliseconds limit) {
  return fail_with_hint(
      fmt::format("the programs were not suspended within the {:.1f} s that CRIU's timeout leaves",
                  std::chrono::duration<double>(limit).count()),
      "raise `timeout` in CRIU's configuration, or try again later");
}

// It has nothing to suspend, or a user has suspended it.
Result<bool> is_suspended(const Target &target, Cancel &cancel) {
  Agents agents(cancel);
  CKPT_CHECK(agents.connect(target));
  return agents.empty() || (agents.suspended() && agents.depth() == protocol::Depth::Full);
}

// After a suspend, an agent connects to its keeper. CRIU would lose that connection if the keeper
// had not accepted it, and the restored agent would take the keeper for dead. An agent answers when
// it has connected, and the keeper accepts in the order in which others connect.
Result<> wait_for_connections(const Target &target, Cancel &cancel) {
  Agents agents(cancel);
  CKPT_CHECK(agents.connect(target));
  renew_session_files(target.keeper, target.session_socket);
  return {};
}

}  // namespace

bool DumpGuard::suspend(milliseconds limit, const Answer &answer) {
  Cancel cancel;
  TimeLimit time(limit);
  std::atomic<bool> answered = false;
  auto once = [&](const Result<> &result) {
    if (answered.exchange(true)) return false;
    answer(result);
    return true;
  };
  // At once: to undo what has begun takes longer than CRIU waits.
  OnCancel late(cancel, [&] { once(time.is_over() ? too_late(limit) : cancel.check()); });
  // Processes are given more than there is, so that the message names CRIU's limit.
  constexpr int kPerSecond = 1000;
  int seconds =
      limit.count() > 0 ? static_cast<int>(limit.count() / kPerSecond) + 2 : kSecondsWithoutLimit;
  Result<> done = guarded([&] { return suspend_thawed(cancel, seconds); });
  return once(done) && done;
}

// A container that is frozen cannot give anything back. CRIU freezes it again, or finds it as it
// was.
Result<> DumpGuard::suspend_thawed(Cancel &cancel, int seconds) {
  std::optional<Freezer> frozen = Freezer::holding(root_);
  if (frozen) CKPT_CHECK(frozen->thaw());
  Result<> done = suspend_programs(cancel, seconds);
  if (!frozen) return done;
  Result<> again = frozen->freeze();
  return done ? again : done;
}

Result<> DumpGuard::suspend_programs(Cancel &cancel, int seconds) {
  CKPT_TRY(std::vector<Target> programs,
           programs_below(root_, [&cancel] { return cancel.check(); }));
  CKPT_TRY(Process root, read_process(root_));
  for (const Target &t : programs) CKPT_CHECK(suspend_one(t, root.ns_pids.size(), cancel, seconds));
  return write_record(image_, keepers_);
}

Result<> DumpGuard::suspend_one(const Target &target, size_t level, Cancel &cancel, int seconds) {
  CKPT_TRY(bool already, is_suspended(target, cancel));
  if (already) return {};
  CKPT_TRY(Process keeper, read_process(target.keeper));
  CKPT_TRY(SuspendedProgram program, SuspendedProgram::open(target.keeper));
  CKPT_TRY(SuspendReport report,
           tools::suspend({.pid = target.keeper, .timeout_seconds = seconds}, cancel));
  if (report.deepened) return {};
  suspended_.push_back(std::move(program));
  keepers_.push_back(nested_pid(keeper, level));
  return wait_for_connections(target, cancel);
}

}  // namespace ckpt::tools
