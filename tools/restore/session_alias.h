// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/unique_fd.h"

namespace ckpt::tools {

// The folder in which a session's folder is, unless another user than root could have made it, or a
// link to it. An invalid descriptor otherwise.
UniqueFd open_folder_of_sessions(const std::string &session_folder);

// The environment of a restored program still contains the CKPT_SESSION of its first start, and
// programs that it executes later inherit that. A symbolic link therefore leads from the old
// session's folder to the new one.
class SessionAlias {
 public:
  // Creates the link, unless a live session uses `old_folder`, or the name is not one that a
  // keeper gives to its session's folder.
  SessionAlias(const std::string &old_folder, const std::string &new_folder);
  SessionAlias(const SessionAlias &) = delete;
  ~SessionAlias();  // removes the link if it is still ours

  bool linked() const { return linked_; }
  // Makes the link again if it was removed, and young (session_files.h).
  void renew();

 private:
  std::string name_, new_;
  UniqueFd parent_;  // the folder of the link
  bool linked_ = false;
};

}  // namespace ckpt::tools
