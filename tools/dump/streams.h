// SPDX-License-Identifier: Apache-2.0
//
// The pipes that lead out of a program. CRIU restores such a pipe as one without its other end
// (facts/criu.md), so ckpt-restore has to hand in another one for each: the image says which pipes
// they are, on which descriptor the program has them, and what was in them unread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "storage/write/image_writer.h"
#include "tools/proc/descriptors.h"
#include "tools/session/target.h"

namespace ckpt::tools {

struct OuterPipe {
  u64 inode = 0;
  bool program_reads = false;
  int fd = -1;       // the root's number for it, else that of the first process that has it
  pid_t holder = 0;  // a process that has it
  int holder_fd = -1;
};

using DescriptorTable = std::map<pid_t, std::vector<Descriptor>>;
DescriptorTable read_descriptors(const Target &target);

// Not those without anybody at the other end, which CRIU restores as they are; not `own` ones.
std::vector<OuterPipe> find_outer_pipes(const Target &target, const DescriptorTable &table,
                                        const std::set<u64> &own);
// What the program has not read yet, without taking it away (the program must be stopped).
Result<Bytes> peek_unread(const OuterPipe &pipe);

// The image's stream for the unread bytes of a pipe.
std::string pipe_stream(u64 inode);

}  // namespace ckpt::tools
