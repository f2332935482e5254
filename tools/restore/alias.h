// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ckpt::tools {

// A restored program still has the CKPT_SESSION of its first start in its environment, and programs
// that it executes later will look there. So that old folder has to lead to the new session.
class SessionAlias {
 public:
  // Puts a link at `old_folder` where nothing alive is.
  SessionAlias(std::string old_folder, std::string new_folder);
  SessionAlias(const SessionAlias &) = delete;
  ~SessionAlias();  // takes the link away if it is still ours

  bool linked() const { return linked_; }

 private:
  std::string old_, new_;
  bool linked_ = false;
};

}  // namespace ckpt::tools
