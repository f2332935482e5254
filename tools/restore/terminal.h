// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/ioctl.h>
#include <termios.h>

#include <optional>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// A pseudo-terminal for a restored program that had a terminal and cannot use ours.
struct PseudoTerminal {
  UniqueFd master, slave;
  // Copies modes and window size of the terminal `like`, if it is one. Does not take one of the
  // numbers in `reserved`: CRIU needs /dev/pts/N for these N.
  static Result<PseudoTerminal> open(int like, const std::vector<int> &reserved);
};

// No value: not a terminal, or one without a size.
std::optional<winsize> window_size(int terminal);
void copy_window_size(int from, int to);

// Puts our own terminal into raw mode while we copy between it and a pseudo-terminal: the
// pseudo-terminal then handles echo, line editing and signal keys.
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
