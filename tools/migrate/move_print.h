// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "tools/migrate/move.h"

namespace ckpt::tools {

// One line for each round, as it ends, on standard error.
void print_round(const nlohmann::json &round);
nlohmann::json as_json(const MoveReport &r);
void print_report(const MoveReport &r);

}  // namespace ckpt::tools
