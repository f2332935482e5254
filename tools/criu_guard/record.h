// SPDX-License-Identifier: Apache-2.0
//
// A file beside CRIU's own in an image: which programs were suspended for the dump, so that a
// restore resumes these, and none that a user had suspended.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "tools/proc/process.h"

namespace ckpt::tools {

// The PIDs of one keeper in the PID namespaces of the tree, beginning with that of the tree's
// first process.
using NestedPid = std::vector<pid_t>;

// `level`: in how many PID namespaces the tree's first process is.
NestedPid nested_pid(const Process &p, size_t level);

std::string record_text(const std::vector<NestedPid> &keepers);
// Text from an image, which may be anything: what is not a list of PIDs is left out.
std::vector<NestedPid> parse_record(std::string_view text);

// In the image's folder. Without keepers the file is removed.
Result<> write_record(int folder, const std::vector<NestedPid> &keepers);
std::vector<NestedPid> read_record(int folder);

}  // namespace ckpt::tools
