// SPDX-License-Identifier: Apache-2.0
//
// What ckpt-dump prints of a dump.
#pragma once

#include <cstdio>
#include <string>

#include "tools/dump/dump.h"

namespace ckpt::tools {

inline constexpr size_t kMaxRemarkBytes = 2000;  // an agent has written them

nlohmann::json as_json(const DumpReport &r);
// With -o - the image takes standard output, so the report goes to standard error.
FILE *report_file(const std::string &image);
void print_report(const DumpReport &r, bool left_running);

}  // namespace ckpt::tools
