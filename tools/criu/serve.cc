// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/ipc/unix_socket.h"
#include "tools/criu/streamer.h"
#include "tools/criu/wire.h"

namespace ckpt::tools {
namespace {

constexpr int kServedPipeBytes = 1 << 20;
constexpr const char *kServeSocket = "streamer-serve.sock";

// A reader that has seen enough closes its pipe: then there is nothing to say, and no SIGPIPE to
// take.
bool reader_left() { return errno == EPIPE; }

Result<bool> write_all_or_leave(int fd, ByteView data) {
  while (!data.empty()) {
    ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && reader_left()) return false;
    if (n < 0) return fail_errno("cannot hand a file to CRIU");
    data = data.subspan(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

Result<> Serve::start(const std::string &folder) {
  CKPT_TRY(listener_, listen_unix(folder + "/" + kServeSocket));
  server_ = std::thread([this] { accept_and_serve(); });
  return {};
}

void Serve::accept_and_serve() {
  Result<UniqueFd> socket = accept_unix(listener_.get());
  if (!socket) return;
  if (Result<> r = serve(socket->get()); !r) {
    std::lock_guard lock(mutex_);
    if (first_error_) first_error_ = r;
  }
}

Result<> Serve::serve(int socket) {
  for (;;) {
    CKPT_TRY(std::optional<std::string> name, streamer::receive_request(socket));
    if (!name) return {};
    std::string stream = std::string(kCriuStreams) + *name;
    bool exists = image_.find(stream) != nullptr;
    CKPT_CHECK(streamer::send_reply(socket, exists));
    if (!exists) continue;
    CKPT_TRY(UniqueFd pipe, streamer::receive_pipe(socket));
    ::fcntl(pipe.get(), F_SETPIPE_SZ, kServedPipeBytes);
    std::lock_guard lock(mutex_);
    copiers_.emplace_back(
        [this, s = std::move(stream), p = std::move(pipe)]() mutable { copy(s, std::move(p)); });
  }
}

void Serve::copy(std::string name, UniqueFd pipe) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  bool left = false;
  Result<> r = image_.for_each_chunk(*image_.find(name), storage::ImageReader::Order::Ascending,
                                     [&](u64, ByteView bytes) -> Result<> {
                                       CKPT_TRY(bool more, write_all_or_leave(pipe.get(), bytes));
                                       left = !more;
                                       return left ? fail("CRIU closed {}", name) : Result<>{};
                                     });
  std::lock_guard lock(mutex_);
  if (!r && !left && first_error_) first_error_ = r;
}

Result<> Serve::finish() {
  if (listener_) ::shutdown(listener_.get(), SHUT_RDWR);
  if (server_.joinable()) server_.join();
  for (std::thread &t : copiers_) t.join();
  copiers_.clear();
  return first_error_;
}

Serve::~Serve() { (void)finish(); }

}  // namespace ckpt::tools
