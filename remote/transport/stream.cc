// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/stream.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "common/base/clock.h"

namespace ckpt::remote {

namespace {

// False: the deadline has passed.
Result<bool> becomes_ready(int socket, short events, std::optional<Clock::time_point> deadline) {
  for (;;) {
    int timeout = -1;
    if (deadline) {
      auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
      if (left.count() <= 0) return false;
      timeout = static_cast<int>(std::min<i64>(left.count(), 1 << 30));
    }
    pollfd p{socket, events, 0};
    int n = ::poll(&p, 1, timeout);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return fail_errno("cannot wait for the peer");
  }
}

bool is_tcp(int socket) {
  int protocol = 0;
  socklen_t size = sizeof protocol;
  return ::getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 &&
         protocol == IPPROTO_TCP;
}

}  // namespace

Result<> wait_for_socket(int socket, short events, std::optional<Clock::time_point> deadline) {
  CKPT_TRY(bool ready, becomes_ready(socket, events, deadline));
  return ready ? Result<>() : fail("the peer does not answer");
}

// A machine that lives answers data, and the probes of a closed window (RFC 9293, 3.8.6.1), also if
// its process does not read. Such probes come ever more rarely, up to 120 s apart, so one that is
// not answered yet says nothing. A window that was closed over data in flight leaves
// tcpi_retransmits as it is. Received data counts, because Linux takes acknowledgements that bring
// nothing new along with it without setting tcpi_last_ack_recv.
bool is_silent(const tcp_info &state, std::chrono::milliseconds silence) {
  constexpr unsigned kAsked = 3;
  bool asked =
      (state.tcpi_unacked > 0 && state.tcpi_retransmits >= kAsked) || state.tcpi_probes >= kAsked;
  u32 quiet = std::min<u32>(state.tcpi_last_ack_recv, state.tcpi_last_data_recv);
  return asked && quiet >= silence.count();
}

SocketStream::SocketStream(UniqueFd socket, std::chrono::milliseconds silence)
    : socket_(std::move(socket)), silence_(is_tcp(socket_.get()) ? silence : silence.zero()) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

Result<> SocketStream::check_peer() const {
  tcp_info state{};
  socklen_t size = sizeof state;
  if (::getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &state, &size) < 0) return {};
  if (!is_silent(state, silence_)) return {};
  return fail("the other node has not answered for {} s",
              std::chrono::ceil<std::chrono::seconds>(silence_).count());
}

Result<> SocketStream::wait(short events, std::optional<Clock::time_point> deadline) {
  if (silence_ == silence_.zero()) return wait_for_socket(socket_.get(), events, deadline);
  for (;;) {
    Clock::time_point look = Clock::now() + silence_ / 4;
    if (deadline && *deadline <= look) return wait_for_socket(socket_.get(), events, deadline);
    CKPT_TRY(bool ready, becomes_ready(socket_.get(), events, look));
    if (ready) return {};
    CKPT_CHECK(check_peer());
  }
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
