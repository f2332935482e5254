// SPDX-License-Identifier: Apache-2.0
//
// The description of the program in an image's manifest: what ckpt-restore checks before it starts
// anything, and what it has to pass to CRIU. tools/manifest/image_manifest.h
// reads it.
#pragma once

#include <sys/types.h>

#include <set>

#include "tools/criu/criu.h"
#include "tools/criu/rights.h"
#include "tools/dump/file_hashes.h"
#include "tools/dump/outer_pipes.h"
#include "tools/manifest/manifest.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// These parts are exact only while the program is stopped.
std::vector<manifest::ProcessEntry> describe_processes(const Target &target,
                                                       const std::set<pid_t> &stopped_before);
manifest::Streams describe_streams(const Target &target, const DescriptorTable &table);
std::vector<manifest::Pipe> describe_pipes(const std::vector<OuterPipe> &pipes);
std::vector<manifest::File> describe_files(const Target &target, const DescriptorTable &table,
                                           const FileHashes &hashes);
std::vector<manifest::MappedFile> describe_mapped_files(const Target &target,
                                                        const DescriptorTable &table,
                                                        FileHashes &hashes, bool stopped);
// The parts that do not change while the program runs.
manifest::Manifest describe_program(const Target &target, const Criu &criu);
// What describes a stopped program in the image, of one that runs, as it is now.
manifest::Manifest describe_running(const Target &target, const Criu &criu, FileHashes &hashes);

}  // namespace ckpt::tools
