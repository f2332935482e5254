// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore --resume --dry-run: whether a program could be resumed on other devices or moved to
// them, what the move would cost, and from which remaining run time on it would pay
// (schedule/cost/move_forecast.h). The program is asked, and not touched.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "schedule/cost/move_forecast.h"
#include "tools/reasons.h"
#include "tools/restore/resume.h"

namespace ckpt::tools {

struct MoveDryRunOptions {
  ResumeOptions resume;
  double watch = 2;            // seconds for which a program that runs is watched
  std::optional<double> step;  // seconds of a step of the program on its present devices
};

struct MoveDryRun {
  pid_t pid = 0;
  std::string program;  // its executable
  bool suspended = false;
  std::string from, to;  // places (tools/device/remote.h)
  std::string device;    // as --device
  Reasons reasons;       // why the real command would be refused
  bool checked = false;  // the devices, too: without a reason, it would begin
  std::vector<std::string> unknown;
  double held_bytes = 0;
  double watched = 0;  // seconds
  schedule::Work work;
  schedule::Way now, then;
  schedule::Estimate leave, enter, back;  // back: to the former devices, of a suspended program
  size_t left = 0, entered = 0;           // earlier moves
  schedule::Forecast forecast;
  std::optional<double> step;
};

// An error: the real command would end with it, too.
Result<MoveDryRun> look_at_move(const MoveDryRunOptions &options);

nlohmann::json as_json(const MoveDryRun &r);
std::string text_of(const MoveDryRun &r);
// The error with which the real command would be refused.
Error refusal_of(const MoveDryRun &r);

}  // namespace ckpt::tools
