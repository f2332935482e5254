// SPDX-License-Identifier: Apache-2.0
//
// Slurm's jobs and nodes, from `squeue --Format` and `scontrol show nodes --oneliner`.
//
// What a user can write into a job, such as its comment, may contain spaces, line breaks and all
// that squeue itself prints. So each field ends with a mark that is new at each call and that no
// user can know (new_mark() in slurm.h): whatever a comment contains, it is one field.
//
// squeue --json says the same in 3 to 7 KB a job instead of 0.6, and takes several times as long.
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

// What squeue --Format is to print. `mark` ends each field, and begins with no digit.
// `with_excluded`: also the nodes that the job excludes.
std::string queue_format(std::string_view mark, bool with_excluded);
// Its output. The jobs are in the order of their numbers.
Result<std::vector<QueuedJob>> parse_queue(std::string_view text, std::string_view mark,
                                           bool with_excluded);

// Whether squeue --Format has the field ExcNodes, by what squeue --version prints: 24.11 has it,
// and 22.05 has not. For versions before 24.11, squeue --format has to be asked for it.
bool knows_exclusions(std::string_view version);
std::string exclusions_format(std::string_view mark);
Result<> add_exclusions(std::string_view text, std::string_view mark, std::vector<QueuedJob> &jobs);

Result<std::vector<QueueNode>> parse_nodes(std::string_view text);

// "n[1-2,5],x" as n1, n2, n5 and x (Slurm's host lists, with one pair of brackets a name).
Result<std::vector<std::string>> expand_hosts(std::string_view list);

}  // namespace ckpt::tools
