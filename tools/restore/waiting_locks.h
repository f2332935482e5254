// SPDX-License-Identifier: Apache-2.0
//
// CRIU takes the program's locks on files (flock(2), fcntl(2)) again, and waits for one that
// another program holds.
#pragma once

#include <sys/types.h>

#include "tools/manifest/image_manifest.h"

namespace ckpt::tools {

// Waits until there is an event; says once which lock the restore waits for. `stem`: the parent of
// CRIU and of what it restores.
void wait_and_name_locks(int events, pid_t stem, const ImageManifest &m);

// For each process of /proc/locks that waits: the one that holds the lock, and the file's inode.
struct LockWait {
  pid_t waits = 0, holds = 0;
  u64 inode = 0;
};
std::vector<LockWait> waits_in(std::string_view proc_locks);

}  // namespace ckpt::tools
