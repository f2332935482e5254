// SPDX-License-Identifier: Apache-2.0
//
// Whether a user of this machine has switched guests off. Any user may do so, without rights of
// root: the switch is a folder like /tmp, in which each user's file is named by the user's number.
// Only that user and root can remove it. A guest that creates such a file only switches guests off.
// A file of a guest under another user's name is removed; if it cannot be removed, it switches
// guests off, too.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ckpt::tools {

class OffSwitch {
 public:
  explicit OffSwitch(std::string folder) : folder_(std::move(folder)) {}

  // By ckpt-idled: makes the folder.
  Result<> create() const;
  // By a user.
  Result<> off() const;
  // Returns the users that still have them switched off. Root removes the files of all users.
  Result<std::vector<std::string>> on() const;

  // The users that have switched guests off. Files that do not belong to the named user are removed
  // (ckpt-idled may do so). A file that cannot be removed, or a folder with too many files, counts
  // as a user, too.
  std::vector<std::string> users() const;

 private:
  std::string folder_;
};

}  // namespace ckpt::tools
