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

  // Lines that fit into the terminal's height.
  void show(const std::string &text);
  // The key that is pressed within `seconds`; nothing if there is none; 'q' at the end of the
  // input; one of the constants below for a key that has no character.
  std::optional<char> key(double seconds);
};

inline constexpr char kUp = 'k', kDown = 'j', kPageUp = 'b', kPageDown = ' ';

// The terminal at standard output; zeros if it is no terminal.
struct TerminalSize {
  int width = 0, height = 0;
};
TerminalSize terminal_size();
// Whether standard output takes colours: it is a terminal, and NO_COLOR (https://no-color.org) is
// not set.
bool takes_colours();

}  // namespace ckpt::tools
