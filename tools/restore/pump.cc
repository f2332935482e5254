// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/pump.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "common/base/log.h"
#include "common/base/shortage.h"

namespace ckpt::tools {
namespace {

constexpr size_t kPieceBytes = 64u << 10;

}  // namespace

Bytes ReturnRemover::next(ByteView piece) {
  Bytes out;
  out.reserve(piece.size() + 1);
  for (std::byte b : piece) {
    if (held_ && b != std::byte{'\n'}) out.push_back(std::byte{'\r'});
    held_ = b == std::byte{'\r'};
    if (!held_) out.push_back(b);
  }
  return out;
}

Bytes ReturnRemover::rest() {
  return std::exchange(held_, false) ? Bytes{std::byte{'\r'}} : Bytes{};
}

Pump::Pump(UniqueFd from, UniqueFd to, Text text, AtStop at_stop, First first)
    : from_(std::move(from)),
      to_(std::move(to)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      text_(text),
      at_stop_(at_stop) {
  thread_ = std::thread([this, f = std::move(first)] { run(f); });
}

Pump::~Pump() {
  u64 one = 1;
  if (::write(stop_.get(), &one, sizeof one) == sizeof one)
    thread_.join();
  else
    thread_.detach();
}

// After an error the program's remaining input is lost, which must be reported.
bool Pump::write_first(const First &first) {
  if (!first) return true;
  bool stopped = false;
  Result<> done = guarded([&] {
    return first([&](ByteView piece) -> Result<> {
      stopped = !write_or_stop(piece);
      return stopped ? fail("stopped") : Result<>();
    });
  });
  if (!done && !stopped)
    log::error(std::move(done.error()).in("the program's unread input is incomplete"));
  return done.has_value();
}

void Pump::run(const First &first) {
  bool open = write_first(first) && from_;
  while (open) {
    pollfd fds[2]{{from_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0) continue;
    bool stop = fds[1].revents;
    if (stop && (at_stop_ == AtStop::Drop || !fds[0].revents)) break;
    open = !fds[0].revents || copy_some();
  }
  write_or_stop(remover_.rest());
  // Close both, so that a reader sees the end of file, and a writer a broken pipe.
  to_.reset();
  from_.reset();
}

bool Pump::copy_some() {
  Bytes piece(kPieceBytes);
  ssize_t n = ::read(from_.get(), piece.data(), piece.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (n <= 0) return false;  // EIO: no process has the pseudo-terminal open any more
  piece.resize(static_cast<size_t>(n));
  if (text_ == Text::WithoutCarriageReturns) piece = remover_.next(piece);
  return write_or_stop(piece);
}

// With Drop, a program that does not read must not delay our end, so a stop interrupts the wait.
// With Drain, everything is written.
bool Pump::write_or_stop(ByteView data) {
  while (!data.empty()) {
    pollfd fds[2]{{to_.get(), POLLOUT, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(fds, at_stop_ == AtStop::Drop ? 2 : 1, -1) < 0) continue;
    if (at_stop_ == AtStop::Drop && fds[1].revents) return false;
    ssize_t n = ::write(to_.get(), data.data(), data.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return false;
    data = data.subspan(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace ckpt::tools
