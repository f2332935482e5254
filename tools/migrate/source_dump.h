// SPDX-License-Identifier: Apache-2.0
//
// The dumps of a program that is migrated: ckpt-dump does each of them.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tools/migrate/move_options.h"
#include "tools/migrate/tool_run.h"

namespace ckpt::tools {

class SourceDumps {
 public:
  SourceDumps(const MoveOptions &o, pid_t pid, ToolRun::Meanwhile meanwhile)
      : options_(o), pid_(pid), meanwhile_(std::move(meanwhile)) {}

  // What ckpt-dump --check says, with the description of the program. Fails if a dump would be
  // refused. Nothing was touched.
  Result<nlohmann::json> check();
  // An image of the program, which goes on. `parent`: "" in the first round. Returns the report.
  Result<nlohmann::json> running(const std::string &image, const std::string &parent);
  // An image of the program, which is then stopped: it goes on when the result is destroyed, unless
  // end() was called.
  Result<ToolRun> stop(const std::string &image, const std::string &parent);
  // How long the stopped program had been paused when stop() returned.
  double paused_seconds() const { return paused_; }
  // Returns when all processes of the program have been killed.
  Result<> end(ToolRun &stopped);

 private:
  std::vector<std::string> arguments(const std::string &image, const std::string &parent) const;
  Result<nlohmann::json> finish(ToolRun &run);

  const MoveOptions &options_;
  pid_t pid_;
  ToolRun::Meanwhile meanwhile_;
  double paused_ = 0;
};

}  // namespace ckpt::tools
