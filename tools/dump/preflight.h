// SPDX-License-Identifier: Apache-2.0
//
// Why a dump would fail, all of it, before anything is touched. What is looked for here are the
// things that CRIU refuses, so that they can be named with what to do about them, and those that it
// would take along without a word and bring back as something else (facts/criu.md).
#pragma once

#include <string>
#include <vector>

#include "tools/session/target.h"

namespace ckpt::tools {

using Reasons = std::vector<std::string>;

// Files without a name up to this size go into the image (criu --ghost-limit).
inline constexpr u64 kMaxUnlinkedBytes = 1ull << 30;

void check_rights(Reasons &reasons);
void check_destination(const Target &target, const std::string &image, bool overwrite,
                       Reasons &reasons);
void check_processes(const Target &target, Reasons &reasons);
void check_descriptors(const Target &target, Reasons &reasons);
void check_unix_sockets(const Target &target, Reasons &reasons);
void check_drivers(const Target &target, Reasons &reasons);

// After Detach: what of rings and drivers is still in a process with an agent.
void check_detached(pid_t pid, Reasons &reasons);

}  // namespace ckpt::tools
