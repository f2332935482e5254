// SPDX-License-Identifier: Apache-2.0
//
// CRIU's command line. tools/criu/criu.h gives the reasons.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::helper {

// Unlinked files that are open are saved up to this size.
inline constexpr u64 kMaxUnlinkedBytes = 1ull << 30;

struct CriuRun {
  std::string criu;                            // the executable
  std::string folder;                          // of the streamer's socket
  std::string plugins;                         // a folder for a dump; "": none
  std::string log;                             // a file's name, or "-": standard output
  bool errors_only = false;                    // in the log
  bool unprivileged = false;                   // CRIU does not run as root
  bool tcp_close = false;                      // TCP connections are closed in a restored program
  std::vector<std::pair<int, u64>> inherited;  // a restore: descriptors, and inodes of the pipes
};

std::vector<std::string> dump_arguments(const CriuRun &run, pid_t root);
std::vector<std::string> restore_arguments(const CriuRun &run);

// The folder with CRIU's plugin for dumps (criu-plugin/dump/); "": it is missing.
std::string dump_plugins();
// "" also if users other than root can change it.
std::string trusted_dump_plugins();

// An executable that only root can replace: it and the folders above it belong to root, and
// no other user can write to them.
Result<> check_owned_by_root(const std::string &executable);

}  // namespace ckpt::helper
