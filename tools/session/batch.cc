// SPDX-License-Identifier: Apache-2.0
#include "tools/session/batch.h"

#include <sys/wait.h>

#include <cstdlib>

#include "common/base/log.h"
#include "tools/history/history.h"

namespace ckpt::tools {
Option add_batch_options(CommandLine &line, BatchOptions &o) {
  return line
      .option(
          "--on-signal=LIST", o.on_signal,
          "with a series of images, or a job: the signals that checkpoint and stop the program; "
          "none: no signal")
      .default_is(fmt::format("{}; none with --job without --continue", kDefaultSignals));
}

Result<std::unique_ptr<BatchJob>> BatchJob::open(const std::string &folder,
                                                 const BatchOptions &options) {
  CKPT_TRY(std::vector<int> signals,
           parse_signals(options.on_signal.empty() ? kDefaultSignals : options.on_signal));
  hold_signals(signals);
  CKPT_TRY(Series series, Series::open(folder));
  return std::unique_ptr<BatchJob>(new BatchJob(std::move(series), std::move(signals)));
}

Result<> BatchJob::start(Keeper &keeper, unsigned keep, Periodic *periodic) {
  // Of this process: ckpt-dump, which it starts, writes it into the history.
  if (Result<unsigned> restarts = series_.count_start(); restarts)
    ::setenv(kRestartCount, std::to_string(*restarts).c_str(), 1);
  else  // the disk is full, for example, which must not keep the program from going on
    log::warn("this start is not counted: {}", restarts.error().text());
  grace_time_ = GraceTime::of_this_job();
  if (std::optional<double> cost = last_cost(series_.folder())) grace_time_.compare(*cost);
  if (periodic) periodic->when_measured([this](double cost) { grace_time_.compare(cost); });
  if (signals_.empty()) return {};
  CKPT_TRY(on_signal_,
           OnSignal::start(keeper, signals_, [this, &keeper, keep](Keeper::DumpEnded ended) {
             return begin_dump(keeper, keep, std::move(ended));
           }));
  return {};
}

Result<> BatchJob::begin_dump(Keeper &keeper, unsigned keep, Keeper::DumpEnded ended) const {
  std::vector<std::string> arguments{"-o", series_.next()};
  if (can_be_parent(series_.last()))
    arguments.insert(arguments.end(), {"--parent", series_.last(), "--keep", std::to_string(keep)});
  return keeper.start_dump(arguments, series_.folder(), std::move(ended));
}

int BatchJob::end(const Keeper::Outcome &outcome) {
  bool stopped = outcome.image || outcome.error;
  if (stopped && on_signal_ && on_signal_->exit_code() != 0) return on_signal_->exit_code();
  if (!stopped && WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == 0)
    if (Result<> marked = series_.mark_finished(); !marked) log::warn("{}", marked.error().text());
  return 0;
}

}  // namespace ckpt::tools
