// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/unique_fd.h"

namespace ckpt::tools {

// The environment of a copy contains the CKPT_SESSION of the program from which its template was
// made. In each copy's mount namespace, the folder of the copy's own session is mounted there, so a
// folder of that name must exist. The copies' keepers share it: each holds a shared lock (flock(2))
// on it, and the last one removes it. While it is locked, no tool takes it for a left-over.
class SessionPlace {
 public:
  // Makes the folder unless it exists, if the name is one that a keeper gives to its session's
  // folder.
  explicit SessionPlace(const std::string &folder);
  SessionPlace(const SessionPlace &) = delete;
  ~SessionPlace();

 private:
  bool hold();
  std::string name_;
  UniqueFd parent_, folder_;
};

}  // namespace ckpt::tools
