// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a checkpoint of a job, or of a restore: one file, which is written once.
//
// Whoever must know it and does not (the coordinator once all images are durable, a member that has
// lost the coordinator) proposes an answer. The first one gets the file, by link(2), which is
// atomic on network file systems too; everybody else reads it. So no two processes of a job ever
// act on different answers, whoever has died or was cut off.
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
