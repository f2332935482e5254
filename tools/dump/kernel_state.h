// SPDX-License-Identifier: Apache-2.0
//
// State in the kernel that CRIU drops without a word, and that a restore sets again from outside
// (restore/kernel_state.h): options of sockets, multicast groups, unread inotify events, policies.
#pragma once

#include <map>
#include <vector>

#include "tools/dump/outer_pipes.h"
#include "tools/manifest/manifest.h"
#include "tools/proc/policies.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// The ranges of memory with a policy of their own, by process. Read while the program still runs.
using MemoryRanges = std::map<pid_t, std::vector<MemoryRange>>;
MemoryRanges memory_ranges(const Target &target);

// While the program is stopped. Adds to `processes`, as describe_processes() returns it.
// What cannot be read is remarked on.
void describe_policies(const Target &target, const MemoryRanges &ranges,
                       std::vector<manifest::ProcessEntry> &processes,
                       std::vector<std::string> &remarks);
std::vector<manifest::SocketOptions> describe_socket_options(const Target &target,
                                                             const DescriptorTable &table);
// Fails for fanotify, whose unread events cannot be replaced.
Result<std::vector<manifest::DescriptorOf>> describe_unread_watches(const Target &target,
                                                                    const DescriptorTable &table);

}  // namespace ckpt::tools
