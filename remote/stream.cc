// SPDX-License-Identifier: Apache-2.0
#include "remote/stream.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "remote/tls.h"

namespace ckpt::remote {

Result<> wait_for_socket(int socket, short events,
                         std::optional<std::chrono::steady_clock::time_point> deadline) {
  for (;;) {
    int timeout = -1;
    if (deadline) {
      auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Stream::Clock::now());
      if (left.count() <= 0) return fail("the peer does not answer");
      timeout = static_cast<int>(std::min<i64>(left.count(), 1 << 30));
    }
    pollfd p{socket, events, 0};
    int n = ::poll(&p, 1, timeout);
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return fail_errno("cannot wait for the peer");
  }
}

Stream::Stream(UniqueFd socket, SslPtr ssl) : socket_(std::move(socket)), ssl_(std::move(ssl)) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

Result<> Stream::wait(short events, std::optional<Clock::time_point> deadline) {
  return wait_for_socket(socket_.get(), events, deadline);
}

Result<size_t> Stream::read_plain(std::span<std::byte> into) {
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

Result<size_t> Stream::read_some(std::span<std::byte> into) {
  if (!ssl_) return read_plain(into);
  for (;;) {
    size_t n = 0;
    int ok = 0, why = 0;
    bool hung_up = false;
    Error error;
    {
      std::lock_guard lock(ssl_mutex_);
      ::ERR_clear_error();
      ok = ::SSL_read_ex(ssl_.get(), into.data(), into.size(), &n);
      why = ok ? 0 : ::SSL_get_error(ssl_.get(), ok);
      // A process that is killed says no goodbye.
      hung_up = why == SSL_ERROR_SSL &&
                ERR_GET_REASON(::ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
      if (!ok && why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
        error = tls_error("cannot receive", *ssl_, why);
    }
    if (ok) return n;
    if (why == SSL_ERROR_ZERO_RETURN || hung_up) return 0u;
    if (!error.what.empty()) return Failure(std::move(error));
    CKPT_CHECK(wait(why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN, deadline_));
  }
}

// 0: the socket takes nothing now.
Result<size_t> Stream::write_some(ByteView data) {
  if (!ssl_) {
    ssize_t n = ::send(socket_.get(), data.data(), data.size(), MSG_NOSIGNAL);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno == EAGAIN || errno == EINTR) return 0u;
    return fail_errno("cannot send");
  }
  std::lock_guard lock(ssl_mutex_);
  ::ERR_clear_error();
  size_t n = 0;
  int ok = ::SSL_write_ex(ssl_.get(), data.data(), data.size(), &n);
  if (ok) return n;
  int why = ::SSL_get_error(ssl_.get(), ok);
  if (why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ) return 0u;
  return Failure(tls_error("cannot send", *ssl_, why));
}

// With TLS 1.3 a write never waits for a message of the peer, so it always waits for room.
Result<> Stream::write(ByteView data) {
  while (!data.empty()) {
    CKPT_TRY(size_t n, write_some(data));
    if (n == 0) CKPT_CHECK(wait(POLLOUT, {}));
    data = data.subspan(n);
  }
  return {};
}

void Stream::shut_down() { ::shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace ckpt::remote
