// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/stream_capture.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "common/base/shortage.h"
#include "common/ipc/unix_socket.h"
#include "helper/core_file.h"
#include "tools/criu/streamer.h"

namespace ckpt::tools {
namespace {

constexpr const char *kCaptureSocket = "streamer-capture.sock";
constexpr int kLookInterval = 100;  // milliseconds between two looks at what another thread says

bool has_bytes(int pipe) {
  pollfd p{pipe, POLLIN, 0};
  return ::poll(&p, 1, kLookInterval) != 0;
}

}  // namespace

Result<> StreamCapture::start(const std::string &folder) {
  CKPT_TRY(listener_, listen_unix(folder + "/" + kCaptureSocket));
  CKPT_TRY(server_, start_thread([this] { accept_and_serve(); }));
  return {};
}

Result<> StreamCapture::start(UniqueFd connection) {
  connection_ = std::move(connection);
  CKPT_TRY(server_, start_thread([this] { serve_connected(connection_.get()); }));
  return {};
}

// If CRIU ends before it connects, finish() shuts the listener down and so ends this thread.
void StreamCapture::accept_and_serve() {
  Result<UniqueFd> socket = accept_unix(listener_.get());
  if (socket) serve_connected(socket->get());
}

void StreamCapture::serve_connected(int socket) {
  {
    std::lock_guard lock(mutex_);
    open_.insert(socket);
    if (abandoned_) ::shutdown(socket, SHUT_RDWR);
  }
  note(guarded([&] { return serve(socket); }));
  std::lock_guard lock(mutex_);
  open_.erase(socket);
}

Result<> StreamCapture::serve(int socket) {
  for (;;) {
    CKPT_TRY(std::optional<std::string> name, streamer::receive_request(socket));
    if (!name) return {};
    CKPT_TRY(std::optional<UniqueFd> pipe, receive_descriptor(socket));
    if (!pipe) return {};  // CRIU was killed: what it says is the cause
    ::fcntl(pipe->get(), F_SETPIPE_SZ, streamer::kPipeBytes);
    auto held = std::make_shared<UniqueFd>(std::move(*pipe));
    CKPT_TRY(std::thread copier, start_thread([this, held, n = *name] { take(*held, n); }));
    std::lock_guard lock(mutex_);
    copiers_.push_back(std::move(copier));
  }
}

void StreamCapture::take(const UniqueFd &pipe, const std::string &name) {
  note(guarded([&] { return copy(pipe.get(), name); }));
  empty(pipe.get());
}

// Without copying (splice(2)): a cancelled dump of a large program should end soon.
void StreamCapture::empty(int pipe) const {
  UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  while (!abandoned_) {
    if (!has_bytes(pipe)) continue;
    ssize_t n = ::splice(pipe, nullptr, null.get(), nullptr, streamer::kPipeBytes, 0);
    if (n == 0 || (n < 0 && errno != EINTR)) return;
  }
}

// Copies one file, or its beginning if the rest is not wanted.
Result<> StreamCapture::copy(int pipe, const std::string &name) {
  // The pages of a process: content-defined cuts find pages that moved since the parent image.
  auto cut = name.starts_with("pages-") ? storage::Cut::Content : storage::Cut::Fixed;
  CKPT_TRY(storage::StreamId id, image_.stream(std::string(kCriuStreams) + name, cut));
  bool kept = RecordedIdentities::wants(name);
  Bytes file;
  u64 size = 0;
  while (!discarded_) {
    if (!has_bytes(pipe)) continue;
    CKPT_TRY(std::span<std::byte> room, image_.room(id));
    ssize_t n = ::read(pipe, room.data(), room.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot read {} from CRIU", name);
    if (n == 0 && kept) note_identity(name, file);
    if (n == 0) {
      note_fact([&] { facts_.close(name, size); });
      return image_.close(id);
    }
    std::span<std::byte> piece = room.first(static_cast<size_t>(n));
    size += piece.size();
    if (kept && file.size() <= helper::kMaxCoreBytes)
      file.insert(file.end(), piece.begin(), piece.end());
    if (is_fact_file(name)) note_fact([&] { facts_.add(name, piece); });
    CKPT_CHECK(image_.commit(id, static_cast<size_t>(n)));
  }
  return {};
}

void StreamCapture::note_identity(const std::string &name, ByteView file) {
  std::lock_guard lock(mutex_);
  identities_.add(name, file);
}

void StreamCapture::note_fact(const std::function<void()> &f) {
  std::lock_guard lock(mutex_);
  f();
}

void StreamCapture::note(const Result<> &r) {
  std::lock_guard lock(mutex_);
  if (!r && first_error_) first_error_ = r;
}

void StreamCapture::abandon() {
  std::lock_guard lock(mutex_);
  discarded_ = abandoned_ = true;
  for (int fd : open_) ::shutdown(fd, SHUT_RDWR);
  if (listener_) ::shutdown(listener_.get(), SHUT_RDWR);
}

Result<> StreamCapture::finish() {
  if (listener_) ::shutdown(listener_.get(), SHUT_RDWR);
  if (server_.joinable()) server_.join();
  for (std::thread &t : copiers_) t.join();
  copiers_.clear();
  return discarded_ ? fail("the dump was cancelled") : first_error_;
}

StreamCapture::~StreamCapture() {
  abandon();
  (void)finish();
}

}  // namespace ckpt::tools
