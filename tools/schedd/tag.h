// SPDX-License-Identifier: Apache-2.0
//
// The comment of a batch job: what its owner tells ckpt-schedd. What ckpt-schedd itself has done
// with the job is in its Record, because the owner can change the comment at any time.
//
//     ckpt:seconds=3600,mb=2000,held
//     ckpt:seconds=3600,memory_gb=9000,held
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
  bool may_share() const { return memory_gb || host_to_device_gb || device_to_host_gb; }
};

// Nothing if the comment does not begin with "ckpt".
Result<std::optional<Tag>> parse_tag(std::string_view comment);
std::string text_of(const Tag &tag);

}  // namespace ckpt::tools
