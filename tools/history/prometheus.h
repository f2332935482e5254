// SPDX-License-Identifier: Apache-2.0
//
// Metrics of the dumps and restores of this machine for Prometheus, as a file that node_exporter's
// textfile collector reads. docs/man/ckpt-history.1.scd lists them; names and labels are stable.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/history/user_history.h"

namespace ckpt::tools {

// Replaces `file` in one step. Counts go on from those in the file that was there, which must be
// such a file of this user's or root's. "-": standard output, counting what the histories hold.
Result<> write_metrics(const std::string &file, const std::vector<UserHistory> &histories);

}  // namespace ckpt::tools
