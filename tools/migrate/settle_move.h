// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a program that was given away, if the connection ended before the other machine
// said that the program runs there. Both ask the other machine, by the number of the migration.
#pragma once

#include <string>

#include "tools/dump/cancel.h"
#include "tools/migrate/move_options.h"
#include "tools/migrate/move_record.h"

namespace ckpt::tools {

// The record of a migration from here: by its number, its first characters, or the program's PID.
Result<MoveRecord> find_record(const std::string &name);

// --finish: the program runs there, or has run. Removes the images here.
Result<> finish_move(const std::string &name, bool force, const MoveOptions &o, Cancel &cancel);
// --take-back: the program never will go on there.
struct TakenBack {
  std::string image;  // to restore
  bool runs = false;  // its first process was never ended: ckpt-migrate was killed before
};
Result<TakenBack> take_back(const std::string &name, bool force, const MoveOptions &o,
                            Cancel &cancel);
// --list: all programs that were given away from here, and the images are still here.
int list_moves(bool json);

}  // namespace ckpt::tools
