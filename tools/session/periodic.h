// SPDX-License-Identifier: Apache-2.0
//
// --every: images at intervals while the program runs. A crash of the machine or of a driver then
// costs no more than the work since the last image.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/base/unique_fd.h"
#include "tools/command_line.h"
#include "tools/session/dump_tools.h"
#include "tools/session/keeper.h"
#include "tools/session/series.h"

namespace ckpt::tools {

struct PeriodicOptions {
  std::string every;         // "10m", or "auto"; empty: no images
  std::string mtbf = "24h";  // for "auto": the mean time between failures
  unsigned keep = 2;         // how many images to keep
  std::string folder = ".";  // where to write them
  bool with_files = false;   // images carry the files that the program only reads
  std::string job;           // the folder of a job, which is checkpointed as a whole
};

// Returns --every.
Option add_periodic_options(CommandLine &line, PeriodicOptions &options);

using Seconds = std::chrono::duration<double>;

// Parses "90", "90s", "10m", "1h30m" or "2d".
Result<Seconds> parse_duration(const std::string &text);

// The interval with the least expected loss of time, if an image costs `cost` and the mean time
// between failures is `mtbf`. Too short an interval spends the time on images, too long a one loses
// work. J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
// Future Generation Computer Systems 22 (2006), equation 37; its first term is Young's.
Seconds best_interval(Seconds cost, Seconds mtbf);

class Periodic {
 public:
  // Null without --every. Works in the loop of `keeper`, which must outlive it, as must `series`:
  // if there is one, the images belong to it.
  static Result<std::unique_ptr<Periodic>> start(Keeper &keeper, const PeriodicOptions &options,
                                                 Series *series = nullptr);

  // Called after each image with the seconds until it was on the disk.
  void when_measured(std::function<void(double)> then) { when_measured_ = std::move(then); }

 private:
  Periodic(Keeper &keeper, PeriodicOptions options, Series *series)
      : keeper_(keeper), options_(std::move(options)), series_(series) {}
  void arm();
  void due();
  Result<> begin();
  Result<> begin_of_job();
  bool another_was_faster() const;
  void ended(int wait_status, const nlohmann::json &report);
  std::string next_name() const;

  Keeper &keeper_;
  PeriodicOptions options_;
  Series *series_;
  Seconds interval_{0}, mtbf_{0};
  UniqueFd timer_;
  std::function<void(double)> when_measured_;
  unsigned number_ = 0;
  std::string last_image_;    // the newest complete one
  std::string last_warning_;  // is not repeated
  DumpWarnings warnings_;
};

}  // namespace ckpt::tools
