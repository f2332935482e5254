// SPDX-License-Identifier: Apache-2.0
//
// The state of the node as JSON, for ckpt-top --json and the journal.
#pragma once

#include <sys/types.h>

#include <map>

#include "manager/daemon/measure/energy.h"
#include "manager/policy/policy.h"

namespace ckpt::manager {

// The user of each program, as the kernel reports it.
using Users = std::map<ProgramId, uid_t>;

std::string status_as_json(const Policy &policy, const Meter &meter, const Users &users, Time now,
                           const EnergyShares &energy = {});
// One message as a line of the journal. `direction`: "from" or "to" the program, or "gone".
std::string journal_line(Time now, const char *direction, ProgramId program, const char *message,
                         const Program *state);

}  // namespace ckpt::manager
