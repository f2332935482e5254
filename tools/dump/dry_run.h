// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump --check: whether a dump would begin, and what a restore would need. What only a stopped
// program shows, and what CRIU itself refuses, is not in it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "tools/dump/cancel.h"
#include "tools/dump/carried_list.h"
#include "tools/dump/dump_options.h"
#include "tools/reasons.h"

namespace ckpt::tools {

struct DryRun {
  pid_t pid = 0;
  size_t processes = 0;
  std::string program;
  Reasons reasons;  // why a dump would be refused; empty: it would begin
  std::vector<std::string> remarks;
  nlohmann::json needs;                // what a restore needs of the machine
  std::optional<CarriedList> carried;  // with_files: what the image would carry
  nlohmann::json manifest;  // of the program as it is now, for the checks of another machine
};

// Looks for everything that would make a dump fail, and changes nothing.
Result<DryRun> dry_run(const DumpOptions &options, Cancel &cancel);

nlohmann::json as_json(const DryRun &r);
void print_dry_run(const DryRun &r);
// The error with which the dump would be refused.
Error refusal_of(const DryRun &r);

}  // namespace ckpt::tools
