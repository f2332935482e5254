// SPDX-License-Identifier: Apache-2.0
//
// The description of the program in an image's manifest: what ckpt-restore checks before it starts
// anything, and what it has to pass to CRIU. tools/manifest/image_manifest.h reads it.
#pragma once

#include <sys/types.h>

#include <set>

#include <nlohmann/json.hpp>

#include "tools/criu/criu.h"
#include "tools/criu/rights.h"
#include "tools/dump/file_hashes.h"
#include "tools/dump/outer_pipes.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// These parts are exact only while the program is stopped.
nlohmann::json describe_processes(const Target &target, const std::set<pid_t> &stopped_before);
nlohmann::json describe_streams(const Target &target, const DescriptorTable &table);
nlohmann::json describe_pipes(const std::vector<OuterPipe> &pipes);
nlohmann::json describe_files(const Target &target, const DescriptorTable &table,
                              const FileHashes &hashes);
nlohmann::json describe_mapped_files(const Target &target, const DescriptorTable &table,
                                     FileHashes &hashes, bool stopped);
// The parts that do not change while the program runs.
nlohmann::json describe_program(const Target &target, const Criu &criu);

}  // namespace ckpt::tools
