// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/migrate/move.h"

namespace ckpt::tools {

// A migration over time, as SVG: what each round has sent and at which rate, when the program ran
// where, and what the time was spent on in which it ran nowhere.
std::string move_svg(const MoveReport &r);

}  // namespace ckpt::tools
