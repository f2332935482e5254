// SPDX-License-Identifier: Apache-2.0
//
// The changes of jobs in one round, executed by one scontrol, which reads them from its standard
// input: a process for each job costs several times what Slurm needs for the change.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::tools {

class Updates {
 public:
  // `scontrol update JobId=JOB FIELD=VALUE…`, in place of what was to be updated of the job.
  void set(u64 job, std::vector<std::string> fields);
  // `scontrol release JOB`, after its update.
  void release(u64 job);

  // Executes them all, in the order in which the jobs were named first. Returns what went wrong
  // with which job; the others are changed nevertheless.
  std::map<u64, std::string> run();

 private:
  struct Change {
    u64 job;
    std::vector<std::string> fields;
    bool release = false;
  };
  Change &of(u64 job);

  std::vector<Change> changes_;
  std::map<u64, size_t> index_;
};

// Exposed for tests. What scontrol printed after each of these commands, which it read from its
// standard input and repeats behind its prompt. `ended`: otherwise it was stopped, and what it did
// not get to is said to have had no answer. Nothing if the output has another form.
std::optional<std::vector<std::string>> answers_in(std::string_view output,
                                                   const std::vector<std::string> &commands,
                                                   bool ended);

}  // namespace ckpt::tools
