// SPDX-License-Identifier: Apache-2.0
//
// The ckpt-dumps that a keeper has started on its program: children of the keeper, which report as
// JSON.
#pragma once

#include <sys/types.h>

#include <functional>
#include <list>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

class DumpTools {
 public:
  using Ended = std::function<void(int wait_status, const nlohmann::json &report)>;
  enum class Of { Program, Job };

  // Starts ckpt-dump in `folder`, with the descriptors `inherited`. `ended` is called by reaped().
  Result<> start(std::vector<std::string> arguments, const std::string &folder, Of of, Ended ended,
                 const std::vector<int> &inherited);
  // A child of this process has ended.
  void reaped(pid_t pid, int wait_status);

  bool any() const { return !running_.empty(); }
  // One that is of the program alone, and not of the job that it belongs to.
  bool any_of_program() const;

 private:
  struct Running {
    pid_t pid;
    Of of;
    UniqueFd report;
    Ended ended;
  };
  std::list<Running> running_;
};

// ckpt-dump's exit code if the image, or the checkpoint of the job, is complete, but a program has
// lost its devices or was not reached any more.
inline constexpr int kCompleteButLost = 3;

// Why a dump failed, by its report.
Error dump_error(const nlohmann::json &report);

// Logs the warnings of successful dumps, whose standard error is closed: each once, as long as it
// comes again with each dump.
class DumpWarnings {
 public:
  void say(const nlohmann::json &report);

 private:
  std::vector<std::string> last_;
};

}  // namespace ckpt::tools
