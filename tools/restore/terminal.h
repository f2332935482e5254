// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <termios.h>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// A pseudo-terminal of ours, for a program that had a terminal and cannot have ours.
struct PseudoTerminal {
  UniqueFd master, slave;
  // Modes and window size are `like`'s where that is a terminal.
  static Result<PseudoTerminal> open(int like);
};

void copy_window_size(int from, int to);

// Our own terminal while it only passes on to a pseudo-terminal, which does all that a terminal
// does.
class RawTerminal {
 public:
  explicit RawTerminal(int fd) : fd_(fd) { enter(); }
  RawTerminal(const RawTerminal &) = delete;
  ~RawTerminal() { leave(); }
  void enter();
  void leave();

 private:
  int fd_;
  bool raw_ = false;
  termios saved_{};
};

}  // namespace ckpt::tools
