// SPDX-License-Identifier: Apache-2.0
//
// What an image says about its program besides its memory: all that ckpt-restore checks before it
// starts anything, and all that it has to hand in. Read by tools/restore/manifest.h.
#pragma once

#include <sys/types.h>

#include <set>

#include <nlohmann/json.hpp>

#include "tools/dump/streams.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// The parts that must be taken while the program is stopped.
nlohmann::json describe_processes(const Target &target, const std::set<pid_t> &stopped_before);
nlohmann::json describe_streams(const Target &target, const DescriptorTable &table);
nlohmann::json describe_pipes(const std::vector<OuterPipe> &pipes);
nlohmann::json describe_files(const DescriptorTable &table);
// Before it is stopped: these do not change.
nlohmann::json describe_mapped_files(const Target &target);
nlohmann::json describe_host();
std::string utc_now();
// The folder that the program knows as its session's: $CKPT_SESSION as it was started with.
std::string session_folder_of(pid_t root);

}  // namespace ckpt::tools
