// SPDX-License-Identifier: Apache-2.0
//
// Slurm's jobs and nodes, from `squeue --json` and `scontrol show nodes --oneliner`.
//
// The form of the JSON depends on Slurm's version. Up to 22.05, numbers are numbers and a state is
// a word; from 23.02 on, numbers that may be unset are {"set", "infinite", "number"}, and a state
// is a list of words. Only this file handles the difference.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "schedule/contention/sharers.h"
#include "tools/schedd/demands.h"

namespace ckpt::tools {

struct QueuedJob {
  u64 id = 0;
  std::string state;  // "PENDING", "RUNNING", "SPECIAL_EXIT" …
  std::string comment;
  std::string reason;  // why it waits: "Priority", "Dependency" …; "": not known
  i64 submitted = 0, started = 0, eligible = 0;  // seconds since 1970; 0: not known
  std::optional<i64> limit;                      // seconds
  unsigned nodes = 1;
  unsigned restarts = 0;
  bool held = false;                      // its priority is 0
  bool exclusive = false;                 // it asked for whole nodes
  u64 group = 0;                          // the array or heterogeneous job of which it is a part
  schedule::Resources needs;              // on all its nodes together
  std::vector<std::string> on, required;  // nodes
  Demands demands;
};

struct QueueNode {
  std::string name;
  std::vector<std::string> features, partitions;
  bool usable = false;  // neither down nor drained
  bool in_use = false;  // by any job
  schedule::Resources has;
};

// In the order of their numbers.
Result<std::vector<QueuedJob>> parse_queue(const std::string &text);
Result<std::vector<QueueNode>> parse_nodes(std::string_view text);

// "n[1-2,5],x" as n1, n2, n5 and x (Slurm's host lists, with one pair of brackets a name).
Result<std::vector<std::string>> expand_hosts(std::string_view list);

}  // namespace ckpt::tools
