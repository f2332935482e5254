// SPDX-License-Identifier: Apache-2.0
//
// The file in a session's folder that says "a dump is under way" (agent/protocol.h). The dump holds
// a lock on it (flock(2)), and so does its CRIU, so that agents do not wait for a dump that was
// killed.
#pragma once

#include <string>

#include "common/base/as_user.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "tools/dump/cancel.h"
#include "tools/dump/outer_pipes.h"

namespace ckpt::tools {

class DumpMarker {
 public:
  // Waits until no other dump of the program is under way; `waited` says whether there was one.
  Result<> wait_for_turn(pid_t keeper, const std::string &session_socket, const Cancel &cancel,
                         bool &waited);
  // Locks the file that the keeper has made.
  void lock(pid_t keeper, const std::string &session_socket);
  // Agents may start from here on.
  void remove();
  int descriptor() const { return file_.get(); }
  // True if an agent was stopped while it checked the lock: its copy would have a file open that no
  // restore can find.
  bool is_open_in(const DescriptorTable &program) const;

 private:
  Credentials keeper_user_;  // who may remove files in it
  UniqueFd turn_;            // a file of the session, locked by the dump that is under way
  UniqueFd folder_;          // of the session
  UniqueFd file_;
};

}  // namespace ckpt::tools
