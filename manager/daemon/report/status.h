// SPDX-License-Identifier: Apache-2.0
//
// The state of the node as JSON, for ckpt-top --json and the journal.
#pragma once

#include "manager/daemon/measure/meter.h"
#include "manager/policy/policy.h"

namespace ckpt::manager {

std::string status_as_json(const Policy &policy, const Meter &meter);
// One message as a line of the journal. `direction`: "from" or "to" the program, or "gone".
std::string journal_line(Time now, const char *direction, ProgramId program, const char *message,
                         const Program *state);

}  // namespace ckpt::manager
