// SPDX-License-Identifier: Apache-2.0
//
// ckpt-idled's status, a file that everyone may read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/unique_fd.h"
#include "idle/idleness.h"

namespace ckpt::tools {

struct IdledStatus {
  idle::Transition last;
  i64 since = 0;  // seconds since 1970
  u64 transitions = 0;
  idle::Sample sample;
  double guest_cpu = 0;
  std::vector<std::string> off_by;
  std::string node, partition, slurm_error;  // of Slurm; node "": not used
};

class StatusFile {
 public:
  // Fails if another ckpt-idled has the folder.
  static Result<StatusFile> create(const std::string &folder);
  Result<> write(const IdledStatus &status);

 private:
  StatusFile(std::string path, UniqueFd lock, u64 start_ticks)
      : path_(std::move(path)), lock_(std::move(lock)), start_ticks_(start_ticks) {}
  std::string path_;
  UniqueFd lock_;
  u64 start_ticks_;  // of this process: tells it from a later one of the same PID
};

// Fails if no ckpt-idled runs there.
Result<nlohmann::json> read_status(const std::string &folder);
// "busy for 12 s: the owner's programs use 45 % of the processors (limit: 30 %)"
std::string status_line(const nlohmann::json &status, i64 now);

}  // namespace ckpt::tools
