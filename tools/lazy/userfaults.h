// SPDX-License-Identifier: Apache-2.0
//
// userfaultfd(2) for memory of another process: accesses to pages that have no contents yet wait
// until a holder of the descriptor places them. Only the process that owns the memory can make the
// descriptor. So a stopped program makes it by a system call of its own thread
// (common/proc/remote_call.h), and closes it again: root's for this tool, another user's for
// ckpt-helper (helper/userfaultfds.h). When the last holder closes it, missing pages become zeros.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/read/image_reader.h"
#include "tools/lazy/owed_map.h"

namespace ckpt::tools {

// What the kernel lacks.
Result<> check_userfaults();

// The userfaultfd of a stopped process, which reports faults of system calls, forks, and changes of
// the memory.
using MakeUserfaultfd = std::function<Result<UniqueFd>(pid_t)>;
// Made here, for a program of root's.
Result<UniqueFd> userfaultfd_of(pid_t pid);

// For the stopped process: `fd`, its userfaultfd, gets the memory of `pieces` registered. Pages
// that exist already get their contents at once, from `stream`, and are taken out of `pieces`: the
// kernel may have made a huge page around something that CRIU has loaded.
Result<> take_faults(pid_t pid, int fd, const storage::ImageReader &image,
                     const storage::StreamEntry &stream, OwedMap &owed,
                     const std::vector<OwedPiece> &pieces);

}  // namespace ckpt::tools
