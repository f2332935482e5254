// SPDX-License-Identifier: Apache-2.0
//
// What CRIU cannot dump where it has not the rights of the machine's root. CRIU's own message names
// no file.
//
// What can be seen beforehand is refused before the program is touched: when CRIU fails, it
// continues the program itself, and calls that waited return EINTR, which ends `tail -f`.
#pragma once

#include "common/base/result.h"
#include "tools/criu/rights.h"
#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// Descriptors, which callbacks of the program may close.
void check_watches_of_user(const Target &target, const CriuRights &rights, Closables &closables);
void check_filters_of_user(const Target &target, const CriuRights &rights, Reasons &reasons);
// Memory that CRIU would have to read by /proc/PID/map_files, for which the rights in a user
// namespace do not suffice (proc_map_files_get_link() in the kernel's fs/proc/base.c).
void check_mappings_in_user_namespace(const Target &target, const CriuRights &rights,
                                      Reasons &reasons);

// The failure of CRIU with its causes, or as it is if it has failed for another reason. The program
// runs again.
Failure with_causes(const Error &of_criu, const Target &target, const CriuRights &rights);

}  // namespace ckpt::tools
