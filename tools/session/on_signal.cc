// SPDX-License-Identifier: Apache-2.0
#include "tools/session/on_signal.h"

#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/log.h"
#include "common/base/text.h"
#include "tools/proc/command.h"
#include "tools/session/job_member.h"

namespace ckpt::tools {
namespace {

constexpr long kRetryNanoseconds = 50'000'000;

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
  if (!first) return;
  log::info("signal {}: the program is checkpointed and stopped", ::sigabbrev_np(signal));
  if (!keeper_.cancel(signal)) checkpoint();  // the image of a restore is there still
}

void OnSignal::retry_soon() {
  itimerspec t{};
  t.it_value.tv_nsec = kRetryNanoseconds;
  ::timerfd_settime(timer_.get(), 0, &t, nullptr);
}

void OnSignal::checkpoint() {
  // An image at an interval may be under way, or a restored program may not have its devices yet.
  if (!keeper_.accepts_dumps()) return retry_soon();
  Result<> started = begin_([this](int wait_status, const nlohmann::json &report) {
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
    if (code == 0) return warnings_.say(report);
    // The other checkpoint was requested by another program of the job, or leaves the programs
    // running.
    if (code == kJobIsBusy) return retry_soon();
    if (keeper_.program_lives())
      log::warn("signal {}: no image was written, and the program keeps running: {}",
                ::sigabbrev_np(signal_), dump_error(report).what);
    signal_ = 0;
  });
  if (started) return;
  log::warn("signal {}: cannot start ckpt-dump: {}", ::sigabbrev_np(signal_), started.error().what);
  signal_ = 0;
}

}  // namespace ckpt::tools
