// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ckpt::tools {

// The environment of a restored program still contains the CKPT_SESSION of its first start, and
// programs that it executes later inherit that. A symbolic link therefore leads from the old
// session's folder to the new one.
class SessionAlias {
 public:
  // Creates the link, unless a live session uses `old_folder`.
  SessionAlias(std::string old_folder, std::string new_folder);
  SessionAlias(const SessionAlias &) = delete;
  ~SessionAlias();  // removes the link if it is still ours

  bool linked() const { return linked_; }

 private:
  std::string old_, new_;
  bool linked_ = false;
};

}  // namespace ckpt::tools
