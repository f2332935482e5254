// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "common/ipc/unix_socket.h"
#include "tools/criu/streamer.h"
#include "tools/criu/wire.h"

namespace ckpt::tools {
namespace {

constexpr int kPipeBytes = 1 << 20;  // as much as an ordinary user may have
constexpr const char *kCaptureSocket = "streamer-capture.sock";

}  // namespace

Result<> Capture::start(const std::string &folder) {
  CKPT_TRY(listener_, listen_unix(folder + "/" + kCaptureSocket));
  server_ = std::thread([this] { accept_and_serve(); });
  return {};
}

// CRIU connects once; when it dies before that, finish() shuts the listener down.
void Capture::accept_and_serve() {
  Result<UniqueFd> socket = accept_unix(listener_.get());
  if (!socket) return;
  {
    std::lock_guard lock(mutex_);
    open_.insert(socket->get());
    if (cancelled_) ::shutdown(socket->get(), SHUT_RDWR);
  }
  note(serve(socket->get()));
  std::lock_guard lock(mutex_);
  open_.erase(socket->get());
}

Result<> Capture::serve(int socket) {
  for (;;) {
    CKPT_TRY(std::optional<std::string> name, streamer::receive_request(socket));
    if (!name) return {};
    CKPT_TRY(UniqueFd pipe, streamer::receive_pipe(socket));
    ::fcntl(pipe.get(), F_SETPIPE_SZ, kPipeBytes);
    std::lock_guard lock(mutex_);
    copiers_.emplace_back(
        [this, p = std::move(pipe), n = *name]() mutable { copy(std::move(p), n); });
  }
}

// One file. After an error the pipe is closed, so that CRIU fails too.
void Capture::copy(UniqueFd pipe, std::string name) {
  // A process's pages, one after the other: what moved must meet its like in the parent image.
  auto cut = name.starts_with("pages-") ? storage::Cut::Content : storage::Cut::Fixed;
  Result<storage::StreamId> id = image_.stream(std::string(kCriuStreams) + name, cut);
  if (!id) return note(Failure(id.error()));
  while (!cancelled_) {
    pollfd p{pipe.get(), POLLIN, 0};
    if (::poll(&p, 1, 100) == 0) continue;  // looks at cancelled_ now and then
    Result<std::span<std::byte>> room = image_.room(*id);
    if (!room) return note(Failure(room.error()));
    ssize_t n = ::read(pipe.get(), room->data(), room->size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return note(fail_errno("cannot read CRIU's {}", name));
    if (n == 0) return note(image_.close(*id));
    if (Result<> r = image_.commit(*id, static_cast<size_t>(n)); !r) {
      pipe.reset();
      return note(r);
    }
  }
}

void Capture::note(const Result<> &r) {
  std::lock_guard lock(mutex_);
  if (!r && first_error_) first_error_ = r;
}

void Capture::cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (int fd : open_) ::shutdown(fd, SHUT_RDWR);
  if (listener_) ::shutdown(listener_.get(), SHUT_RDWR);
}

Result<> Capture::finish() {
  if (listener_) ::shutdown(listener_.get(), SHUT_RDWR);
  if (server_.joinable()) server_.join();
  for (std::thread &t : copiers_) t.join();
  copiers_.clear();
  return cancelled_ ? fail("cancelled") : first_error_;
}

Capture::~Capture() {
  cancel();
  (void)finish();
}

}  // namespace ckpt::tools
