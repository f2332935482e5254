// SPDX-License-Identifier: Apache-2.0
//
// The comment of a batch job: what its owner tells ckpt-schedd, and what ckpt-schedd records there.
// The daemon has no other state, so after a restart it reads everything from the queue.
//
//     ckpt:seconds=3600,mb=2000,held,done=0.2500,until=1795384703
//     ckpt:seconds=3600,memory_gb=9000,held,done=0.1000,at=1795384703,slow=1.52
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::tools {

struct Tag {
  // By the job's owner.
  std::optional<double> seconds;    // run time on nodes of speed 1; otherwise the time limit
  std::optional<double> megabytes;  // the largest size of its image
  std::optional<double> compile;    // seconds of a restore in which its kernels are compiled
  std::optional<double> wait;       // seconds for which a checkpoint waits for its kernels
  // What it moves when it runs without neighbours, with the names of ckpt-sim --tasks. With any of
  // them it may share its node.
  std::optional<double> memory_gb, host_to_device_gb, device_to_host_gb;
  // By job_submit.lua: the job waits for ckpt-schedd.
  bool held = false;
  // By ckpt-schedd. Times are seconds since 1970.
  double done = 0;                // share of the job in earlier runs, or until `at`
  std::optional<i64> at;          // of the last change of its neighbours
  std::optional<double> slow;     // its slowdown since then
  std::optional<i64> placed;      // when it got its nodes
  std::optional<i64> until;       // when it has to leave them
  std::optional<i64> leaving;     // when it was told to leave
  std::optional<double> planned;  // seconds that its checkpoint was then planned to take
  bool stays = false;             // it was told to leave but did not

  bool may_share() const { return memory_gb || host_to_device_gb || device_to_host_gb; }
  // What concerns the nodes that the job has, or had.
  void forget_nodes();
};

// Nothing if the comment does not begin with "ckpt".
Result<std::optional<Tag>> parse_tag(std::string_view comment);
std::string text_of(const Tag &tag);

}  // namespace ckpt::tools
