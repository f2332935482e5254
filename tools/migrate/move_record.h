// SPDX-License-Identifier: Apache-2.0
//
// The folder of one migration on one of its two machines, with the images of all rounds.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// From: the machine that the program leaves. To: the one that it goes to.
enum class MoveSide { From, To };

// /var/lib/ckpt/migrations for root, otherwise ckpt/migrations in $XDG_STATE_HOME or
// ~/.local/state. "": this user has no folder.
std::string migrations_folder();
// Whether this is the number of a migration: 36 characters as those of a UUID, so that it is a safe
// name of a folder.
bool is_move_number(std::string_view number);

class MoveRecord {
 public:
  // Makes the folder (mode 0700), which must be new, and locks it.
  static Result<MoveRecord> create(MoveSide side, const std::string &number,
                                   const nlohmann::json &about);
  // Whether or not a process has it locked. It need not exist.
  static Result<MoveRecord> named(MoveSide side, const std::string &number);
  // All of this side, the oldest first.
  static std::vector<MoveRecord> all(MoveSide side);

  const std::string &folder() const { return folder_; }
  const std::string &number() const { return number_; }
  // "N.img": the name is the same on both sides, because increments name their parents.
  std::string image(unsigned round) const;
  nlohmann::json about() const;  // null: there is none
  // False: another process has it.
  bool lock();
  bool is_old() const;  // nothing was changed in it for months
  void remove();
  void remove_images();

 private:
  MoveRecord(std::string folder, std::string number)
      : folder_(std::move(folder)), number_(std::move(number)) {}
  std::string folder_, number_;
  UniqueFd lock_;
};

// Removes what killed receivers have left: images of migrations that were never taken.
void remove_dead_receipts();

}  // namespace ckpt::tools
