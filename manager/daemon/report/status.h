// SPDX-License-Identifier: Apache-2.0
//
// The state of the node for people and tools, as JSON.
#pragma once

#include "manager/daemon/measure/meter.h"
#include "manager/policy/policy.h"

namespace ckpt::manager {

std::string status_as_json(const Policy &policy, const Meter &meter);
// One message, in one line.
std::string journal_line(Time now, const char *direction, ProgramId program, const char *message,
                         const Program *state);

}  // namespace ckpt::manager
