// SPDX-License-Identifier: Apache-2.0
//
// Logs of what was seen of a machine, a line for each sample:
//
//   # seconds, and words; what is missing is 0, unknown or no
//   12.5 cpu=45 device=1048576 celsius=61.5 minute=1080 input battery off
//
// `cpu`: per cent of all processors; `device`: bytes. A line holds until the next one, except for
// `input`, which is a moment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "idle/idleness.h"

namespace ckpt::idle {

// No value for an empty line or a comment.
Result<std::optional<Sample>> parse_sample(std::string_view line);
std::string text_of(const Sample &sample);

Result<std::vector<Sample>> parse_log(std::string_view text);

struct Replay {
  std::vector<Transition> transitions;
  Time begin{0}, end{0}, idle{0};
};
// What an Idleness makes of the log, as if each line had been seen again and again until the next.
// The log's last line only ends it.
Replay replay(const std::vector<Sample> &log, const Settings &settings);

}  // namespace ckpt::idle
