// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "common/base/clock.h"

namespace ckpt::remote {

Result<> wait_for_socket(int socket, short events, std::optional<Clock::time_point> deadline) {
  for (;;) {
    int timeout = -1;
    if (deadline) {
      auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
      if (left.count() <= 0) return fail("the peer does not answer");
      timeout = static_cast<int>(std::min<i64>(left.count(), 1 << 30));
    }
    pollfd p{socket, events, 0};
    int n = ::poll(&p, 1, timeout);
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return fail_errno("cannot wait for the peer");
  }
}

SocketStream::SocketStream(UniqueFd socket) : socket_(std::move(socket)) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

Result<> SocketStream::wait(short events, std::optional<Clock::time_point> deadline) {
  return wait_for_socket(socket_.get(), events, deadline);
}

Result<size_t> SocketStream::read_some(std::span<std::byte> into) {
  for (;;) {
    ssize_t n = ::recv(socket_.get(), into.data(), into.size(), 0);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno == ECONNRESET) return 0u;
    if (errno == EAGAIN)
      CKPT_CHECK(wait(POLLIN, deadline_));
    else if (errno != EINTR)
      return fail_errno("cannot receive");
  }
}

Result<size_t> SocketStream::write_some(ByteView data) {
  ssize_t n = ::send(socket_.get(), data.data(), data.size(), MSG_NOSIGNAL);
  if (n >= 0) return static_cast<size_t>(n);
  if (errno == EAGAIN || errno == EINTR) return 0u;
  return fail_errno("cannot send");
}

Result<> SocketStream::write(ByteView data) {
  while (!data.empty()) {
    CKPT_TRY(size_t n, write_some(data));
    if (n == 0) CKPT_CHECK(wait(POLLOUT, {}));
    data = data.subspan(n);
  }
  return {};
}

void SocketStream::shut_down() { ::shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace ckpt::remote
