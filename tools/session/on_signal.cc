// SPDX-License-Identifier: Apache-2.0
#include "tools/session/on_signal.h"

#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "tools/proc/command.h"
#include "tools/session/job_member.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kSoon{50};
constexpr std::chrono::seconds kFirstWait{1}, kLongestWait{10};
// The last signal is not forgotten for so long: grace times are shorter.
constexpr std::chrono::minutes kInsist{10};

}  // namespace

Result<std::vector<int>> parse_signals(const std::string &list) {
  std::vector<int> signals;
  if (list.empty() || list == "none") return signals;
  for (const std::string &name : split_at_commas(list)) {
    int signal = KeeperSignals::named(name);
    if (signal == 0)
      return fail_with_hint(fmt::format("--on-signal: \"{}\" cannot start a checkpoint", name),
                            "choose among HUP, INT, QUIT, USR1, USR2, ALRM, TERM and XCPU");
    signals.push_back(signal);
  }
  return signals;
}

void hold_signals(const std::vector<int> &signals) {
  if (signals.empty()) return;
  KeeperSignals::block();
  ignore_in_children(signals);
}

Result<std::unique_ptr<OnSignal>> OnSignal::start(Keeper &keeper, std::vector<int> signals,
                                                  Begin begin) {
  std::unique_ptr<OnSignal> o(new OnSignal(keeper, std::move(begin)));
  o->timer_.reset(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!o->timer_) return fail_errno("cannot create a timer");
  keeper.watch(o->timer_.get(), [self = o.get()] {
    u64 times;
    if (::read(self->timer_.get(), &times, sizeof times) == sizeof times) self->checkpoint();
    return true;
  });
  keeper.hooks().signal = [self = o.get(), signals = std::move(signals)](int signal) {
    if (std::ranges::find(signals, signal) == signals.end()) return false;
    self->arrived(signal);
    return true;
  };
  return o;
}

int OnSignal::exit_code() const {
  return signal_ == 0 ? 0 : signal_ == SIGUSR2 ? kHeldExitCode : kCheckpointedExitCode;
}

// A batch system may send several signals, one after the other. Each requests the same.
void OnSignal::arrived(int signal) {
  bool first = signal_ == 0;
  signal_ = signal;
  until_ = Clock::now() + kInsist;
  if (waits_) return checkpoint();
  if (!first) return;
  wait_ = kFirstWait;
  last_failure_.clear();
  log::info("signal {}: the program is checkpointed and stopped", ::sigabbrev_np(signal));
  if (!keeper_.cancel(signal)) checkpoint();  // the image of a restore is there still
}

void OnSignal::retry_after(std::chrono::milliseconds wait) {
  itimerspec t{};
  t.it_value.tv_sec = wait / 1s;
  t.it_value.tv_nsec = (wait % 1s) / 1ns;
  ::timerfd_settime(timer_.get(), 0, &t, nullptr);
}

void OnSignal::checkpoint() {
  waits_ = false;
  // An image at an interval may be under way, or a restored program may not have its devices yet.
  if (!keeper_.accepts_dumps()) return retry_after(kSoon);
  Result<> started =
      begin_([this](int wait_status, const nlohmann::json &report) { ended(wait_status, report); });
  if (!started) failed("cannot start ckpt-dump: " + started.error().what);
}

void OnSignal::ended(int wait_status, const nlohmann::json &report) {
  int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  if (code == 0) return warnings_.say(report);
  // The other checkpoint was requested by another program of the job, or leaves the programs
  // running.
  if (code == kJobIsBusy) return retry_after(kSoon);
  if (code != kCompleteButLost) return failed(dump_error(report).what);
  log::warn("signal {}: {}", ::sigabbrev_np(signal_), dump_error(report).what);
}

void OnSignal::failed(const std::string &why) {
  if (!keeper_.program_lives()) {
    signal_ = 0;
    return;
  }
  if (why != std::exchange(last_failure_, why))
    log::warn("signal {}: no image was written, and the program keeps running: {}",
              ::sigabbrev_np(signal_), why);
  if (Clock::now() > until_) {
    log::warn("signal {}: no further attempt is made", ::sigabbrev_np(signal_));
    signal_ = 0;
    return;
  }
  waits_ = true;
  retry_after(wait_);
  wait_ = std::min(wait_ + kFirstWait, kLongestWait);
}

}  // namespace ckpt::tools
