// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump --check: the report of Dump::dry_run(). What only a stopped program shows, and what
// CRIU itself refuses, is not in it.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/dump/dump.h"

namespace ckpt::tools {

nlohmann::json as_json(const DryRun &r);
void print_dry_run(const DryRun &r);
// The error with which the dump would be refused.
Error refusal_of(const DryRun &r);

}  // namespace ckpt::tools
