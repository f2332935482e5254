// SPDX-License-Identifier: Apache-2.0
//
// A program in a batch system: its images form a series, and it continues from the newest one when
// the job is started again; signals of the batch system checkpoint it (ckpt-run --image).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/session/grace_time.h"
#include "tools/session/on_signal.h"
#include "tools/session/periodic.h"
#include "tools/session/series.h"

namespace ckpt::tools {

inline constexpr const char *kDefaultSignals = "TERM,USR1,USR2";

struct BatchOptions {
  std::string on_signal;  // "": not given
};

// --on-signal, which counts only with a series of images or a job.
Option add_batch_options(CommandLine &line, BatchOptions &options);

class BatchJob {
 public:
  // To be called first of all: see hold_signals(). `folder`: as for Series::open().
  static Result<std::unique_ptr<BatchJob>> open(const std::string &folder,
                                                const BatchOptions &options);
  Series &series() { return series_; }
  // Counts this start. The program finds the number in its environment (CKPT_RESTART_COUNT). To be
  // called before the program starts. `periodic` may be null.
  Result<> start(Keeper &keeper, unsigned keep, Periodic *periodic);
  // After the keeper's loop. Notes a finished program. The exit code that a signal has decided, or
  // 0.
  int end(const Keeper::Outcome &outcome);

 private:
  BatchJob(Series series, std::vector<int> signals)
      : series_(std::move(series)), signals_(std::move(signals)) {}
  Result<> begin_dump(Keeper &keeper, unsigned keep, Keeper::DumpEnded ended) const;

  Series series_;
  std::vector<int> signals_;
  GraceTime grace_time_;
  std::unique_ptr<OnSignal> on_signal_;
};

}  // namespace ckpt::tools
