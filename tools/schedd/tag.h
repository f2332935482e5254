// SPDX-License-Identifier: Apache-2.0
//
// The comment of a batch job: what its owner tells ckpt-schedd, and what ckpt-schedd records there.
// The daemon has no other state, so after a restart it reads everything from the queue.
//
//     ckpt:seconds=3600,mb=2000,held,done=0.2500,until=1795384703
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
  // By job_submit.lua: the job waits for ckpt-schedd.
  bool held = false;
  // By ckpt-schedd. Times are seconds since 1970.
  double done = 0;                // share of the job in earlier runs
  std::optional<i64> placed;      // when it got its nodes
  std::optional<i64> until;       // when it has to leave them
  std::optional<i64> leaving;     // when it was told to leave
  std::optional<double> planned;  // seconds that its checkpoint was then planned to take
  bool stays = false;             // it was told to leave but did not
};

// Nothing if the comment does not begin with "ckpt".
Result<std::optional<Tag>> parse_tag(std::string_view comment);
std::string text_of(const Tag &tag);

}  // namespace ckpt::tools
