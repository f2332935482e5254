// SPDX-License-Identifier: Apache-2.0
//
// Why CRIU could not dump a user's program, where it has not the rights that it has for one of
// root's. CRIU's own message names no file.
#pragma once

#include "tools/criu/rights.h"
#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// None: it has failed for another reason. The program runs again.
Reasons causes_for_user(const Error &of_criu, const Target &target, const CriuRights &rights);

}  // namespace ckpt::tools
