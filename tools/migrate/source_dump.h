// SPDX-License-Identifier: Apache-2.0
//
// The dumps of a program that is migrated: ckpt-dump does each of them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "tools/migrate/move_options.h"
#include "tools/migrate/tool_run.h"

namespace ckpt::tools {

class SourceDumps {
 public:
  // Bytes of `file`, the chunks of an image that is not complete yet.
  using Written = std::function<Result<>(const std::string &file, u64 offset, u32 bytes)>;

  SourceDumps(const MoveOptions &o, pid_t pid, ToolRun::Meanwhile meanwhile, Written written)
      : options_(o), pid_(pid), meanwhile_(std::move(meanwhile)), written_(std::move(written)) {}

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
  Result<std::optional<char>> follow(ToolRun &run);

  const MoveOptions &options_;
  pid_t pid_;
  ToolRun::Meanwhile meanwhile_;
  Written written_;
  double paused_ = 0;
};

}  // namespace ckpt::tools
