// SPDX-License-Identifier: Apache-2.0
//
// The decision on a checkpoint or a restore of a job: one file, which is written once.
//
// A process that must know it (the coordinator once all images are durable, a member that has lost
// the coordinator) proposes an answer. The first proposal gets the file, by link(2), which is
// atomic on network file systems too; all other processes read it. So no two processes of a job
// ever act on different answers, even if some of them have died or lost their connections.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "common/base/result.h"

namespace ckpt::tools {

// Returns the accepted answer: `proposal`, or an earlier one.
Result<nlohmann::json> decide(const std::string &path, const nlohmann::json &proposal);
// What decide() has written. Null: nothing yet. Others of this user's processes may have written
// it.
Result<nlohmann::json> read_decision(const std::string &path);

// {"result": "complete"} and what else the coordinator notes, or {"result": "abandoned"}.
bool is_complete(const nlohmann::json &decision);
nlohmann::json abandoned(const std::string &why);

}  // namespace ckpt::tools
