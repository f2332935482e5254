// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

namespace ckpt::tools {

namespace {

UniqueFd open_master() { return UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)); }

// The kernel gives out the lowest free number, so the others stay open meanwhile.
UniqueFd open_master_beside(const std::vector<int> &reserved) {
  std::vector<UniqueFd> unsuitable;
  for (;;) {
    UniqueFd master = open_master();
    unsigned number = 0;
    if (!master || ::ioctl(master.get(), TIOCGPTN, &number) < 0) return master;
    if (std::find(reserved.begin(), reserved.end(), static_cast<int>(number)) == reserved.end())
      return master;
    unsuitable.push_back(std::move(master));
  }
}

}  // namespace

Result<PseudoTerminal> PseudoTerminal::open(int like, const std::vector<int> &reserved) {
  PseudoTerminal p;
  p.master = open_master_beside(reserved);
  if (!p.master || ::grantpt(p.master.get()) < 0 || ::unlockpt(p.master.get()) < 0)
    return fail_errno("cannot create a pseudo-terminal");
  char name[64];
  if (::ptsname_r(p.master.get(), name, sizeof name) != 0)
    return fail_errno("cannot get the name of a pseudo-terminal");
  p.slave.reset(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!p.slave) return fail_errno("cannot open {}", name);
  termios modes{};
  if (like >= 0 && ::tcgetattr(like, &modes) == 0) ::tcsetattr(p.slave.get(), TCSANOW, &modes);
  copy_window_size(like, p.master.get());
  ::fcntl(p.master.get(), F_SETFL, ::fcntl(p.master.get(), F_GETFL) | O_NONBLOCK);
  return p;
}

std::optional<winsize> window_size(int terminal) {
  winsize size{};
  if (terminal < 0 || ::ioctl(terminal, TIOCGWINSZ, &size) != 0) return std::nullopt;
  if (size.ws_row == 0 && size.ws_col == 0) return std::nullopt;
  return size;
}

void copy_window_size(int from, int to) {
  if (std::optional<winsize> size = window_size(from)) ::ioctl(to, TIOCSWINSZ, &*size);
}

void RawTerminal::enter() {
  if (raw_ || ::tcgetattr(fd_, &saved_) < 0) return;
  termios raw = saved_;
  ::cfmakeraw(&raw);
  raw_ = ::tcsetattr(fd_, TCSADRAIN, &raw) == 0;
}

void RawTerminal::leave() {
  if (raw_) ::tcsetattr(fd_, TCSADRAIN, &saved_);
  raw_ = false;
}

}  // namespace ckpt::tools
