// SPDX-License-Identifier: Apache-2.0
#include "tools/top/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace ckpt::tools {
namespace {

// xterm's private modes 1049 (the other screen) and 25 (the cursor), which all terminals know.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l", kLeave = "\x1b[?25h\x1b[?1049l";
constexpr int kEnds[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

termios g_before{};
bool g_changed = false;

void put(std::string_view text) {
  ssize_t ignored = ::write(STDOUT_FILENO, text.data(), text.size());
  (void)ignored;
}

// tcsetattr(3) and write(2) are safe in signal handlers (signal-safety(7)).
void restore() {
  if (g_changed) ::tcsetattr(STDIN_FILENO, TCSANOW, &g_before);
  put(kLeave);
}

// SA_RESETHAND has restored the signal's default.
void restore_and_end(int signal) {
  restore();
  ::raise(signal);
}

// The rest of an escape sequence (xterm's cursor and page keys).
char key_of_sequence() {
  char rest[8]{};
  pollfd p{STDIN_FILENO, POLLIN, 0};
  constexpr int kMilliseconds = 20;
  if (::poll(&p, 1, kMilliseconds) <= 0 || ::read(STDIN_FILENO, rest, sizeof rest) < 2) return 0;
  switch (rest[1]) {
    case 'A': return kUp;
    case 'B': return kDown;
    case '5': return kPageUp;
    case '6': return kPageDown;
    default: return 0;
  }
}

}  // namespace

Screen::Screen() {
  if (::tcgetattr(STDIN_FILENO, &g_before) == 0) {
    termios raw = g_before;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    g_changed = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  struct sigaction action {};
  action.sa_handler = restore_and_end;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (int signal : kEnds) ::sigaction(signal, &action, nullptr);
  put(kEnter);
}

Screen::~Screen() {
  for (int signal : kEnds) ::signal(signal, SIG_DFL);
  restore();
}

// Each line replaces the one before it, and the rest of the screen is cleared at the end (ECMA-48,
// EL and ED): a screen that is cleared first flickers. A line feed after the last line would
// scroll.
void Screen::show(const std::string &text) {
  std::string out = "\x1b[H";
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    out += (at > 0 ? "\n" : "") + text.substr(at, end - at) + "\x1b[K";
    at = end + 1;
  }
  put(out + "\x1b[J");
}

std::optional<char> Screen::key(double seconds) {
  pollfd p{STDIN_FILENO, POLLIN, 0};
  if (::poll(&p, 1, static_cast<int>(std::lround(seconds * 1000))) <= 0) return std::nullopt;
  char key = 0;
  if (::read(STDIN_FILENO, &key, 1) != 1) return 'q';
  return key == '\x1b' ? key_of_sequence() : key;
}

TerminalSize terminal_size() {
  winsize w{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0) return {};
  return {.width = w.ws_col, .height = w.ws_row};
}

bool takes_colours() {
  const char *no_color = std::getenv("NO_COLOR"), *term = std::getenv("TERM");
  if (no_color && *no_color) return false;
  return ::isatty(STDOUT_FILENO) == 1 && !(term && std::string_view(term) == "dumb");
}

}  // namespace ckpt::tools
