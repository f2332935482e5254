// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a checkpoint of a job, or of a restore: one file, which is written once.
//
// A process that must know it (the coordinator once all images are durable, a member that has lost
// the coordinator) proposes an answer. The first proposal gets the file, by link(2), which is
// atomic on network file systems too; all other processes read it. So no two processes of a job
// ever act on different answers, whichever of them have died or were cut off.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "common/base/result.h"

namespace ckpt::tools {

// Returns the answer that holds: `proposal`, or the one that was there before.
Result<nlohmann::json> decide(const std::string &path, const nlohmann::json &proposal);
// What decide() has written. Null: nothing yet. Others of this user's processes may have written
// it.
Result<nlohmann::json> read_decision(const std::string &path);

// {"result": "complete"} and what else the coordinator notes, or {"result": "abandoned"}.
bool is_complete(const nlohmann::json &decision);
nlohmann::json abandoned(const std::string &why);

}  // namespace ckpt::tools
