// SPDX-License-Identifier: Apache-2.0
//
// ckpt-start: several copies of a program from one template, at the same time.
//
//   ckpt-start ── copy 1: a keeper ── stem ── program     in mount, IPC and PID namespaces of its
//   own
//              ── copy 2: a keeper ── stem ── program
//
// A copy is a restore (tools/restore): this process opens and checks the image once, and forks a
// keeper for each copy, as ckpt-restore --detach does.
#pragma once

#include <string>
#include <vector>

#include "tools/restore/plan.h"

namespace ckpt::tools {

// A copy could not be started, or one of several has failed.
inline constexpr int kStartFailed = 1;

struct StartOptions {
  RestoreOptions restore;
  unsigned copies = 1;
  std::string output;                 // "%n": the copy's number
  std::vector<std::string> listen;    // OLD=NEW
  std::vector<std::string> settings;  // NAME=VALUE
  std::string host_name;              // "%n", too
  bool detach = false;
  bool share_files = false;  // all copies may write to the same files
  bool json = false;
};

// Returns the exit code.
Result<int> start(StartOptions o);

}  // namespace ckpt::tools
