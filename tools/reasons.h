// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/printable.h"

namespace ckpt::tools {

// Reasons why something is refused. A tool collects all of them and reports them together, so that
// a user need not find them one by one.
using Reasons = std::vector<std::string>;

// A reason that disappears if this process closes something, which a callback of the program may do
// before a dump (ckpt_on_checkpoint).
struct Closable {
  int pid;
  std::string why;
};
using Closables = std::vector<Closable>;

// Agents write some of them.
inline constexpr size_t kMaxReasonBytes = 2000;

// One line for each, to follow a colon.
inline std::string as_list(const Reasons &reasons) {
  std::string list;
  for (const std::string &r : reasons) list += "\n  - " + printable(r, kMaxReasonBytes);
  return list;
}

}  // namespace ckpt::tools
