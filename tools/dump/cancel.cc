// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/cancel.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace ckpt::tools {

Cancel::Cancel() {
  sigset_t set;
  ::sigemptyset(&set);
  // As with nohup(1), a signal that is ignored from the start does not end a dump.
  for (int s : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    if (::sigaction(s, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) ::sigaddset(&set, s);
  }
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC));
  stop_.reset(::eventfd(0, EFD_CLOEXEC));
  ::sigaddset(&set, SIGPIPE);  // so that write() to a closed pipe returns EPIPE instead
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { listen(); });
}

Cancel::~Cancel() {
  unsigned long long one = 1;
  if (::write(stop_.get(), &one, sizeof one) == sizeof one)
    thread_.join();
  else
    thread_.detach();
}

void Cancel::listen() {
  for (;;) {
    pollfd fds[2]{{signals_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents) return;
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
    std::lock_guard lock(mutex_);
    signal_ = static_cast<int>(info.ssi_signo);
    for (auto &f : actions_) f();
  }
}

Result<> Cancel::check() const {
  if (signal_) return fail("cancelled by signal {} ({})", signal_.load(), ::strsignal(signal_));
  return {};
}

Cancel::Action Cancel::add(std::function<void()> f) {
  std::lock_guard lock(mutex_);
  if (signal_) f();
  return actions_.insert(actions_.end(), std::move(f));
}

void Cancel::remove(Action a) {
  std::lock_guard lock(mutex_);
  actions_.erase(a);
}

}  // namespace ckpt::tools
