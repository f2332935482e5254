// SPDX-License-Identifier: Apache-2.0
//
// ckpt-migrate has a restore wait, with the program loaded and stopped, until no process of the
// program is left on the machine that it comes from. Each word is one byte on a socket:
//
//   ckpt-restore   'R': loaded, stopped, and nothing of it has run
//   ckpt-migrate   'G': go on here. A hang-up: end the copy
//   ckpt-restore   'T': it is decided, for ever, that it goes on here
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "tools/command_line.h"
#include "tools/restore/plan.h"

namespace ckpt::tools {

// Options between ckpt-migrate and ckpt-restore.
struct MigrationOptions {
  std::string needs;             // a file that describes a running program
  std::optional<int> take_over;  // the socket
  std::string record;            // the folder of the migration
  bool stand_by = false;         // the image is not the last one (stand_by.h)
};
void add_migration_options(CommandLine &line, MigrationOptions &o);

// Fails if the program of this image runs on another machine, or may do so.
Result<> refuse_given_away(const RestoreOptions &o);

class TakeOver {
 public:
  // `folder` has the files of tools/migrate/decision_files.h.
  TakeOver(std::string folder, int connection);
  // `root`: the first process of the copy. Fails if the copy must not run, and as soon as `check`
  // fails.
  Result<> take(pid_t root, const std::function<Result<>()> &check);
  // It runs, with its devices.
  void runs();

 private:
  std::string folder_;
  UniqueFd connection_, decision_;
};

std::optional<TakeOver> take_over_of(const MigrationOptions &o);

}  // namespace ckpt::tools
