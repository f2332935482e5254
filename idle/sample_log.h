// SPDX-License-Identifier: Apache-2.0
//
// Logs of the samples of a machine, one line for each sample:
//
//   # seconds, and words; what is missing is 0, unknown or no
//   12.5 cpu=45 device=1048576 celsius=61.5 minute=1080 input battery off
//
// `cpu`: per cent of all processors; `device`: bytes. A line is valid until the next one, except
// `input`, which is a single event.
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
// The transitions of an Idleness for the log, as if each line were repeated until the next one. The
// last line only ends the log.
Replay replay(const std::vector<Sample> &log, const Settings &settings);

}  // namespace ckpt::idle
