// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/link/printed.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include "common/base/log.h"
#include "libckpt-ocl/client/command/helper_thread.h"
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/link/link.h"

namespace ckpt::ocl {
namespace {

// Where nothing can be written: without a limit, the text would fill the program's memory.
constexpr size_t kMostKept = 16u << 20;

// Returns false if a checkpoint comes first.
bool wait_for_standard_output() {
  constexpr int kMilliseconds = 50;
  pollfd p{STDOUT_FILENO, POLLOUT, 0};
  while (::poll(&p, 1, gate().closing() ? 0 : kMilliseconds) <= 0)
    if (gate().closing()) return false;
  return true;
}

// With a driver in the program, its thread would get the signal, and with it the program. Threads
// of this library block all signals.
void pass_on_broken_pipe() {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  if (::sigismember(&blocked, SIGPIPE) == 1) ::kill(::getpid(), SIGPIPE);
}

}  // namespace

void Printed::add(OutputWay way, std::string text) {
  std::lock_guard lock(mutex_);
  if (bytes_ + text.size() > kMostKept) {
    log::warn("what a kernel printed is lost: the program's standard output takes nothing");
    return;
  }
  bytes_ += text.size();
  pieces_.push_back({way, std::move(text)});
  empty_.store(false, std::memory_order_relaxed);
}

void Printed::write() {
  std::lock_guard lock(mutex_);
  while (!pieces_.empty() && write_piece(pieces_.front())) {
    bytes_ -= pieces_.front().text.size();
    pieces_.pop_front();
  }
  empty_.store(pieces_.empty(), std::memory_order_relaxed);
}

// Returns whether nothing is left of the piece. If the descriptor is closed or the pipe broken, the
// text is lost, as it would be with a driver in the program.
bool Printed::write_piece(Piece &piece) {
  if (piece.way == OutputWay::Buffered) {
    if (gate().closing()) return false;  // a thread of the program may hold the stream's lock
    std::fwrite(piece.text.data(), 1, piece.text.size(), stdout);
    return true;
  }
  while (!piece.text.empty()) {
    if (!wait_for_standard_output()) return false;
    // A pipe that is writable takes this much at once (pipe(7)).
    size_t most = std::min<size_t>(piece.text.size(), PIPE_BUF);
    ssize_t n = ::write(STDOUT_FILENO, piece.text.data(), most);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return false;
    if (n < 0 && errno == EPIPE) pass_on_broken_pipe();
    if (n < 0) return true;
    piece.text.erase(0, static_cast<size_t>(n));
    bytes_ -= static_cast<size_t>(n);
  }
  return true;
}

namespace {

[[noreturn]] void take_output(void *) {
  for (;;) {
    {
      ApiCall call;
      link().wait_until([] { return false; }, true);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // there is no proxy now
  }
}

}  // namespace

void start_taking_output() {
  static std::atomic<bool> started{false};
  if (!started.exchange(true)) start_helper_thread("ckpt-output", take_output, nullptr);
}

}  // namespace ckpt::ocl
