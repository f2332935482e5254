// SPDX-License-Identifier: Apache-2.0
#include "tools/idled/daemon.h"

#include <fcntl.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/io.h"
#include "common/base/log.h"
#include "common/base/new_file.h"
#include "common/base/print.h"
#include "common/base/ready.h"
#include "idle/sample_log.h"

namespace ckpt::tools {
namespace {

// The interval at which Slurm's state is checked: another user may have cancelled the job, or it
// was lost with Slurm's controller.
constexpr std::chrono::seconds kAskEvery{15}, kAskAgain{2};
constexpr std::chrono::seconds kWriteEvery{1};

idle::Time monotonic() {
  return std::chrono::duration_cast<idle::Time>(Clock::now().time_since_epoch());
}

}  // namespace

Result<> IdleDaemon::run(const volatile sig_atomic_t &stop) {
  if (settings_.slurm) {
    seen_.node = settings_.slurm->node;
    seen_.partition = settings_.slurm->partition;
  }
  seen_.since = ::time(nullptr);
  Result<> watched = watch(stop);
  Result<> told = job_ ? job_->set(true, "ckpt-idled has ended") : Result<>();
  return watched ? told : watched;
}

Result<> IdleDaemon::watch(const volatile sig_atomic_t &stop) {
  const idle::Time start = monotonic();
  while (!stop) {
    CKPT_CHECK(round(monotonic() - start));
    if (!std::exchange(began_, true)) tell_ready();
    timespec pause{settings_.interval.count() / 1'000'000,
                   settings_.interval.count() % 1'000'000 * 1000};
    if (!stop) ::nanosleep(&pause, nullptr);
  }
  return {};
}

Result<> IdleDaemon::round(idle::Time now) {
  CKPT_TRY(Seen seen, look(now));
  seen_.sample = seen.sample;
  seen_.guest_cpu = seen.guest_cpu;
  std::optional<idle::Transition> changed = idleness_.observe(seen.sample);
  if (changed) say(*changed);
  tell_slurm(now);
  seen_.last = idleness_.last();
  if (!settings_.record.empty()) CKPT_CHECK(record(seen.sample));
  if (began_ && !changed && now < wrote_ + kWriteEvery) return {};
  wrote_ = now;
  return status_.write(seen_);
}

Result<Seen> IdleDaemon::look(idle::Time now) {
  CKPT_TRY(Seen seen, sensors_->read());
  seen.sample.at = now;
  seen_.off_by = off_.users();
  seen.sample.off |= !seen_.off_by.empty();
  return seen;
}

void IdleDaemon::say(const idle::Transition &t) {
  seen_.since = ::time(nullptr);
  seen_.transitions++;
  slurm_agrees_ = false;
  std::optional<u64> left_out = lines_.admit(t.at, 0);
  if (!left_out) return;
  print("{}: {}{}\n", t.idle ? "idle" : "busy", t.text,
        *left_out > 0 ? fmt::format(" ({} lines were left out)", *left_out) : "");
  std::fflush(stdout);
}

// At each transition at once; a command that failed is tried again.
void IdleDaemon::tell_slurm(idle::Time now) {
  if (!job_) return;
  bool first = asked_ == idle::Time{0};
  bool due = first || now >= asked_ + (seen_.slurm_error.empty() ? kAskEvery : kAskAgain);
  bool changed = !slurm_agrees_ && seen_.slurm_error.empty();
  if (!due && !changed) return;
  Result<> told = job_->set(!idleness_.idle(), idleness_.last().text);
  asked_ = now + idle::Time{1};
  slurm_agrees_ = told.has_value();
  seen_.slurm_error = told ? "" : told.error().what;
  if (told) return;
  if (std::optional<u64> left_out = failures_.admit(now, 0))
    log::warn("cannot tell Slurm that the machine is {}: {}", idleness_.idle() ? "idle" : "busy",
              told.error().text());
}

Result<> IdleDaemon::record(const idle::Sample &sample) {
  if (!record_) {
    CKPT_TRY(record_, open_output(settings_.record, O_APPEND, 0644));
  }
  return write_all(record_.get(), view(idle::text_of(sample) + "\n"));
}

}  // namespace ckpt::tools
