// SPDX-License-Identifier: Apache-2.0
//
// `--every`: images at intervals while the program runs on, so that a crash of the machine or of a
// driver costs no more than the time since the last one.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "common/base/unique_fd.h"
#include "tools/session/keeper.h"

namespace CLI {
class App;
}

namespace ckpt::tools {

struct PeriodicOptions {
  std::string every;         // "10m", or "auto"; empty: never
  std::string mtbf = "24h";  // with "auto": mean time between failures
  unsigned keep = 2;         // images
  std::string folder = ".";  // where they go
};

void add_periodic_options(CLI::App &app, PeriodicOptions &options);

using Seconds = std::chrono::duration<double>;

// "90", "90s", "10m", "1h30m", "2d": seconds.
Result<Seconds> parse_duration(const std::string &text);

// The interval that loses least, where an image costs `cost` and failures come every `mtbf`: J. T.
// Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
// Generation Computer Systems 22 (2006), equation 37; its first term is Young's.
Seconds best_interval(Seconds cost, Seconds mtbf);

class Periodic {
 public:
  // Nothing if there is nothing to do. `keeper` must outlive it; it lives in the keeper's loop.
  static Result<std::unique_ptr<Periodic>> start(Keeper &keeper, const PeriodicOptions &options);

 private:
  Periodic(Keeper &keeper, PeriodicOptions options)
      : keeper_(keeper), options_(std::move(options)) {}
  void arm();
  void due();
  void ended(int wait_status, const nlohmann::json &report);
  std::string next_name() const;

  Keeper &keeper_;
  PeriodicOptions options_;
  Seconds interval_{0}, mtbf_{0};
  UniqueFd timer_;
  unsigned number_ = 0;
  std::string last_image_;  // the newest complete one
  std::string complaint_;   // said already
};

}  // namespace ckpt::tools
