// SPDX-License-Identifier: Apache-2.0
//
// A terminal on which ckpt-top draws, and its keys.
#pragma once

#include <optional>
#include <string>

namespace ckpt::tools {

// Single keys without echo, on the terminal's other screen; the destructor restores the mode and
// the screen, as do the signals INT, TERM, HUP and QUIT, by which the process then ends. One at a
// time.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen &) = delete;

  void show(const std::string &text);
  // The key that is pressed within `seconds`; nothing if there is none; 'q' at the end of the
  // input.
  std::optional<char> key(double seconds);
};

// The terminal's columns at standard output; 0 if it is no terminal.
int terminal_width();
// Whether standard output takes colours: it is a terminal, and NO_COLOR (https://no-color.org) is
// not set.
bool takes_colours();

}  // namespace ckpt::tools
