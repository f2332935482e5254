// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/stream_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/shortage.h"
#include "common/ipc/unix_socket.h"
#include "tools/criu/streamer.h"

namespace ckpt::tools {
namespace {

// 60,000 mappings take 4 MiB. A larger file is served as it is.
constexpr u64 kMaxEditedBytes = 64u << 20;
constexpr size_t kPartBytes = 1 << 20;
constexpr const char *kServeSocket = "streamer-serve.sock";

// CRIU closes a pipe before the end of the file when it does not need the rest, which is not an
// error.
bool reader_has_closed(int pipe) {
  pollfd p{pipe, POLLOUT, 0};
  return ::poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

void block_sigpipe() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace

Result<> StreamServer::start(const std::string &folder) {
  CKPT_TRY(listener_, listen_unix(folder + "/" + kServeSocket));
  CKPT_TRY(server_, start_thread([this] { accept_and_serve(); }));
  return {};
}

Result<> StreamServer::start(UniqueFd connection) {
  connection_ = std::move(connection);
  CKPT_TRY(server_, start_thread([this] { serve_connected(connection_.get()); }));
  return {};
}

void StreamServer::accept_and_serve() {
  Result<UniqueFd> socket = accept_unix(listener_.get());
  if (socket) return serve_connected(socket->get());
  std::lock_guard lock(mutex_);
  if (finishing_) return;
  first_error_ = Failure(std::move(socket).error().in("the connection of CRIU"));
  listener_.reset();  // CRIU would wait for an answer otherwise
}

void StreamServer::serve_connected(int socket) {
  if (Result<> r = guarded([&] { return serve(socket); }); !r) {
    ::shutdown(socket, SHUT_RDWR);  // CRIU would wait for an answer otherwise
    std::lock_guard lock(mutex_);
    if (first_error_) first_error_ = r;
  }
}

Result<> StreamServer::serve(int socket) {
  for (;;) {
    CKPT_TRY(std::optional<std::string> name, streamer::receive_request(socket));
    if (!name) return {};
    std::string stream = std::string(kCriuStreams) + *name;
    bool exists = image_.find(stream) != nullptr;
    CKPT_CHECK(streamer::send_reply(socket, exists));
    if (!exists) continue;
    CKPT_TRY(std::optional<UniqueFd> pipe, receive_descriptor(socket));
    if (!pipe) return {};  // CRIU was killed: what it says is the cause
    ::fcntl(pipe->get(), F_SETPIPE_SZ, streamer::kPipeBytes);
    auto held = std::make_shared<UniqueFd>(std::move(*pipe));
    CKPT_TRY(std::thread copier,
             start_thread([this, held, stream] { copy(stream, std::move(*held)); }));
    std::lock_guard lock(mutex_);
    copiers_.push_back(std::move(copier));
  }
}

Result<> StreamServer::read_parts(const storage::StreamEntry &stream,
                                  const std::vector<StreamPart> &parts, const Write &write) const {
  Bytes bytes(kPartBytes);
  for (const StreamPart &part : parts)
    for (u64 done = 0; done < part.size;) {
      std::span<std::byte> some(bytes.data(), std::min<u64>(kPartBytes, part.size - done));
      CKPT_CHECK(image_.read(stream, part.offset + done, some));
      CKPT_CHECK(write(some));
      done += some.size();
    }
  return {};
}

Result<> StreamServer::read_stream(const std::string &name, const Write &write) const {
  std::string file = name.substr(kCriuStreams.size());
  const storage::StreamEntry &stream = *image_.find(name);
  if (stream.size <= kMaxEditedBytes && edits_.wanted(file)) {
    Bytes all(stream.size);
    CKPT_CHECK(image_.read(stream, 0, all));
    return write(edits_.edited(file, std::move(all)));
  }
  if (edits_.parts)
    if (std::optional<std::vector<StreamPart>> parts = edits_.parts(file))
      return read_parts(stream, *parts, write);
  return image_.for_each_chunk(stream, storage::ImageReader::Order::Ascending,
                               [&](u64, ByteView bytes) { return write(bytes); });
}

void StreamServer::copy(const std::string &name, UniqueFd pipe) {
  block_sigpipe();
  bool closed = false;
  auto write = [&](ByteView bytes) {
    Result<> written = write_all(pipe.get(), bytes);
    closed = !written && reader_has_closed(pipe.get());
    return written;
  };
  Result<> r = guarded([&] { return read_stream(name, write); });
  std::lock_guard lock(mutex_);
  if (!r && !closed && first_error_)
    first_error_ = Failure(std::move(r).error().in(fmt::format("the stream {}", name)));
}

Result<> StreamServer::finish() {
  {
    std::lock_guard lock(mutex_);
    finishing_ = true;
    if (listener_) ::shutdown(listener_.get(), SHUT_RDWR);
  }
  if (server_.joinable()) server_.join();
  for (std::thread &t : copiers_) t.join();
  copiers_.clear();
  return first_error_;
}

StreamServer::~StreamServer() { (void)finish(); }

}  // namespace ckpt::tools
