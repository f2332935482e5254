// SPDX-License-Identifier: Apache-2.0
//
// What ckpt-schedd has done with each job. Only this daemon writes it: a job's comment is its
// owner's, and a false one could take nodes from the jobs of others.
//
// The file has one object for each job, and is replaced as a whole. It is read once, at the start.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "tools/schedd/queue.h"

namespace ckpt::tools {

// Times are seconds since 1970.
struct Record {
  i64 submitted = 0;               // of the job, as Slurm uses numbers again
  double done = 0;                 // share of the job in earlier runs, or until `at`
  std::optional<i64> at;           // of the last change of its neighbours
  std::optional<double> slow;      // its slowdown since then
  std::optional<i64> placed;       // when it got its nodes
  std::vector<std::string> nodes;  // which it then got
  std::optional<i64> until;        // when it has to leave them
  std::optional<i64> leaving;      // when it was told to leave
  std::optional<double> planned;   // seconds that its checkpoint was then planned to take
  bool stays = false;              // it was told to leave but did not
  i64 not_before = 0;              // it is not placed earlier
  unsigned failed_starts = 0;      // since it last ran

  // What concerns the nodes that the job has, or had.
  void forget_nodes();
  bool operator==(const Record &) const = default;
};

class Records {
 public:
  // Without a path they end with the process. A file that is missing is empty.
  static Result<Records> load(std::string path);

  // Empty, if nothing was done with this job.
  Record of(const QueuedJob &job) const;
  void set(const QueuedJob &job, const Record &record);
  // Those of all other jobs are forgotten.
  void keep_only(const std::vector<QueuedJob> &jobs);
  // Nothing, if nothing has changed.
  Result<> save();

 private:
  std::string path_;
  std::map<u64, Record> all_;  // by the number of the job
  bool changed_ = false;
};

// Of the user; "" if there is none.
std::string usual_records_file();

}  // namespace ckpt::tools
