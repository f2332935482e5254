// SPDX-License-Identifier: Apache-2.0
//
// Slurm kills a preempted job GraceTime seconds after it has told the job. If a checkpoint takes
// longer, the work since the last image is lost. So a warning is printed as soon as a checkpoint
// has taken longer, before work is lost. It does not count that the signal may have to wait for an
// image at an interval (--every), which takes up to the same time again.
#pragma once

#include <optional>
#include <string>

namespace ckpt::tools {

// Parses one line of `scontrol --oneliner show partition`. Nothing if jobs of this partition are
// not preempted in this way.
std::optional<double> parse_grace_time(const std::string &line);

class GraceTime {
 public:
  // Asks Slurm about the partition that this job runs in. Returns nothing if the answer is missing
  // or slow.
  static GraceTime of_this_job();
  // A checkpoint of the job's program took this long until it was on the disk. Warns once.
  void compare(double seconds);

 private:
  std::string partition_;
  std::optional<double> seconds_;
};

// Of the newest checkpoint in this folder that the history knows.
std::optional<double> last_cost(const std::string &series_folder);

}  // namespace ckpt::tools
