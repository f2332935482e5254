// SPDX-License-Identifier: Apache-2.0
//
// The pipes between a program and processes outside of it. CRIU would restore such a pipe without a
// process at its outer end, so ckpt-restore replaces it (criu restore --inherit-fd). For that, the
// image records each pipe's inode, the program's descriptor, and the bytes that were unread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "storage/write/image_writer.h"
#include "tools/manifest/manifest.h"
#include "tools/proc/descriptors.h"
#include "tools/session/target.h"

namespace ckpt::tools {

struct OuterPipe {
  u64 inode = 0;
  bool program_reads = false;
  int fd = -1;       // the descriptor in the root process, or else in the first process that has it
  pid_t holder = 0;  // a process that has the pipe open
  int holder_fd = -1;
};

using DescriptorTable = std::map<pid_t, std::vector<Descriptor>>;
DescriptorTable read_descriptors(const Target &target);

// Leaves out pipes with a closed other end or an end in flight inside of the program, which CRIU
// restores as they are, and those in `own`, the agents' outcome pipes.
Result<std::vector<OuterPipe>> find_outer_pipes(const Target &target, const DescriptorTable &table,
                                                const std::set<u64> &own);
// FIFOs of which the program has one end open, and another program the other one: the manifest's
// "fifos". CRIU opens them by their names.
std::vector<manifest::Fifo> describe_fifos(const Target &target, const DescriptorTable &table);
// The bytes that the program has not read yet. They stay in the pipes; the program must be stopped.
Result<> save_unread(const std::vector<OuterPipe> &pipes, storage::ImageWriter &image);

// The image's stream for the unread bytes of a pipe.
std::string pipe_stream(u64 inode);

}  // namespace ckpt::tools
