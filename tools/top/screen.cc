// SPDX-License-Identifier: Apache-2.0
#include "tools/top/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

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

void Screen::show(const std::string &text) { put("\x1b[H\x1b[2J" + text); }

std::optional<char> Screen::key(double seconds) {
  pollfd p{STDIN_FILENO, POLLIN, 0};
  if (::poll(&p, 1, static_cast<int>(std::lround(seconds * 1000))) <= 0) return std::nullopt;
  char key = 0;
  return ::read(STDIN_FILENO, &key, 1) == 1 ? key : 'q';
}

int terminal_width() {
  winsize w{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

bool takes_colours() {
  const char *no_color = std::getenv("NO_COLOR"), *term = std::getenv("TERM");
  if (no_color && *no_color) return false;
  return ::isatty(STDOUT_FILENO) == 1 && !(term && std::string_view(term) == "dumb");
}

}  // namespace ckpt::tools
