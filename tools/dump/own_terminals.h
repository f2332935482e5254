// SPDX-License-Identifier: Apache-2.0
//
// The pseudo-terminals that the program has made itself, as script(1), expect and terminal
// emulators do, and those that have lost their master. CRIU restores them with the program. All
// other terminals are outer ones, which ckpt-restore replaces.
#pragma once

#include <set>

#include "tools/dump/outer_pipes.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class OwnTerminals {
 public:
  explicit OwnTerminals(const DescriptorTable &table);
  // True if the descriptor of the process is an end of one of them.
  bool has(const Process &process, const Descriptor &d) const;
  // N of each /dev/pts/N.
  const std::set<int> &indices() const { return indices_; }

 private:
  std::set<int> indices_;
};

}  // namespace ckpt::tools
