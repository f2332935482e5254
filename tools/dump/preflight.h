// SPDX-License-Identifier: Apache-2.0
//
// Searches for everything that would make a dump fail, before anything is touched. There are two
// kinds: state that CRIU refuses, so that the message can say what to do about it; and state that
// CRIU dumps without an error but cannot restore faithfully.
#pragma once

#include <string>
#include <vector>

#include "tools/criu/criu.h"
#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

void check_destination(const Target &target, const std::string &image, bool overwrite,
                       Reasons &reasons);
void check_processes(const Target &target, Reasons &reasons);
// Whether CRIU can run among the program's files.
void check_container(const Target &target, const Criu &criu, Reasons &reasons);
void check_descriptors(const Target &target, Closables &reasons);
void check_unix_sockets(const Target &target, Closables &reasons);
void check_nvml(const Target &target, Closables &reasons);
void check_drivers(const Target &target, Reasons &reasons);

}  // namespace ckpt::tools
