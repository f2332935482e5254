// SPDX-License-Identifier: Apache-2.0
//
// userfaultfd(2) for memory of another process: accesses to pages that have no contents yet wait
// until a holder of the descriptor places them. Only the process that owns the memory can make the
// descriptor. So a stopped program makes it by a system call of its own thread
// (proc/remote_call.h), and closes it again. When the last holder closes it, missing pages become
// zeros.
#pragma once

#include <sys/types.h>

#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/read/image_reader.h"
#include "tools/lazy/owed_map.h"
#include "tools/reasons.h"

namespace ckpt::tools {

// What the kernel lacks.
void check_userfaults(Reasons &reasons);

// For the stopped process: its userfaultfd, with which the memory of `pieces` is registered. Pages
// that exist already get their contents at once, from `stream`, and are taken out of `pieces`: the
// kernel may have made a huge page around something that CRIU has loaded.
Result<UniqueFd> take_faults(pid_t pid, const storage::ImageReader &image,
                             const storage::StreamEntry &stream, OwedMap &owed,
                             const std::vector<OwedPiece> &pieces);

}  // namespace ckpt::tools
