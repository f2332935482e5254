// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/unix_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>

#include "common/base/clock.h"
#include "common/base/test_points.h"
#include "common/ipc/message_reader.h"

namespace ckpt {
namespace {

constexpr std::chrono::seconds kConnectTimeout{15};

Result<sockaddr_un> address(const std::string &path) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  if (path.size() >= sizeof a.sun_path)
    return fail_with_hint(
        fmt::format("socket path {} is longer than {} bytes", path, sizeof a.sun_path - 1),
        "set CKPT_RUNTIME_DIR to a folder with a short name");
  path.copy(a.sun_path, path.size());
  return a;
}

// Root, as a client, may connect to any user's server.
Result<UniqueFd> authorised(UniqueFd fd) {
  if (::geteuid() != 0) CKPT_CHECK(check_client(fd.get()));
  return fd;
}

// connect(2) waits no longer than this while the server's queue of connections is full (unix(7)).
Result<> set_send_timeout(int socket, std::chrono::seconds timeout) {
  timeval tv{timeout.count(), 0};
  if (::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv) < 0)
    return fail_errno("cannot set a timeout on a socket");
  return {};
}

// Room for the control message that carries descriptors (cmsg(3)).
struct SentControl {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxMessageFds)> bytes{};
};

void attach(msghdr &m, SentControl &control, std::span<const int> fds) {
  if (fds.empty()) return;
  m.msg_control = control.bytes.data();
  m.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
}

// The descriptors go with the first byte.
Result<> send_parts(int socket, ByteView data, std::span<const int> fds, int flags = 0) {
  while (!data.empty() || !fds.empty()) {
    iovec iov{const_cast<std::byte *>(data.data()), data.size()};
    msghdr m{};
    m.msg_iov = &iov;
    m.msg_iovlen = 1;
    SentControl control;
    attach(m, control, fds);
    ssize_t n = ::sendmsg(socket, &m, flags | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && flags != 0) return fail("the peer does not read its messages");
    if (n < 0) return fail_errno("cannot send a message");
    data = data.subspan(static_cast<size_t>(n));
    fds = {};
  }
  return {};
}

Result<MessageHeader> header_of(u16 type, ByteView body, std::span<const int> fds) {
  if (body.size() > kMaxMessageBytes || fds.size() > kMaxMessageFds)
    return fail("message of {} bytes and {} descriptors is too large", body.size(), fds.size());
  return MessageHeader{static_cast<u32>(body.size()), type, static_cast<u16>(fds.size())};
}

}  // namespace

Result<UniqueFd> listen_unix(const std::string &path) {
  CKPT_TRY(sockaddr_un a, address(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("cannot create a UNIX socket");
  // chmod() instead of umask(), which would affect the files that other threads create. The folder
  // is 0700, so no other user can connect before.
  if (::bind(fd.get(), reinterpret_cast<sockaddr *>(&a), sizeof a) < 0)
    return fail_errno("cannot bind {}", path);
  if (::chmod(path.c_str(), 0600) < 0) return fail_errno("cannot chmod {}", path);
  if (::listen(fd.get(), 64) < 0) return fail_errno("cannot listen on {}", path);
  return fd;
}

Result<UniqueFd> connect_unix(const std::string &path) {
  CKPT_TRY(sockaddr_un a, address(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("cannot create a UNIX socket");
  CKPT_CHECK(set_send_timeout(fd.get(), kConnectTimeout));
  while (::connect(fd.get(), reinterpret_cast<sockaddr *>(&a), sizeof a) < 0) {
    if (errno == EAGAIN)
      return fail("cannot connect to {}: its process accepted no connection within {} s", path,
                  kConnectTimeout.count());
    if (errno != EINTR) return fail_errno("cannot connect to {}", path);
  }
  CKPT_CHECK(set_send_timeout(fd.get(), std::chrono::seconds(0)));
  return authorised(std::move(fd));
}

// The socket is non-blocking only until it is connected.
Result<std::optional<UniqueFd>> connect_unix_at_once(const std::string &path) {
  CKPT_TRY(sockaddr_un a, address(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno("cannot create a UNIX socket");
  if (::connect(fd.get(), reinterpret_cast<sockaddr *>(&a), sizeof a) < 0) {
    if (errno == EAGAIN) return std::nullopt;
    return fail_errno("cannot connect to {}", path);
  }
  if (::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK) < 0)
    return fail_errno("cannot make the connection to {} blocking", path);
  CKPT_TRY(UniqueFd checked, authorised(std::move(fd)));
  return checked;
}

Result<UniqueFd> accept_unix(int listener) {
  for (;;) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd && errno == EINTR) continue;
    if (!fd) return fail_errno("cannot accept a connection");
    CKPT_CHECK(check_client(fd.get()));
    return fd;
  }
}

Result<> check_client(int socket) {
  CKPT_TRY(ucred peer, peer_credentials(socket));
  if (peer.uid != ::geteuid() && peer.uid != 0)
    return fail("the peer has uid {} instead of {}", peer.uid, ::geteuid());
  return {};
}

Result<ucred> peer_credentials(int socket) {
  ucred cred{};
  socklen_t n = sizeof cred;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
    return fail_errno("cannot read the credentials of the peer");
  return cred;
}

Result<> name_senders(int socket) {
  int yes = 1;
  if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) < 0)
    return fail_errno("cannot learn which processes send");
  return {};
}

Result<std::pair<UniqueFd, UniqueFd>> socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
    return fail_errno("cannot create a socket pair");
  return std::pair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Result<> send_message(int socket, u16 type, ByteView body, std::span<const int> fds) {
  CKPT_TRY(MessageHeader h, header_of(type, body, fds));
  test_point_before_sending(type);
  CKPT_CHECK(send_parts(socket, view(&h, sizeof h), fds));
  CKPT_CHECK(send_parts(socket, body, {}));
  test_point_after_sending(type);
  return {};
}

Result<> send_message_at_once(int socket, u16 type, ByteView body, std::span<const int> fds) {
  CKPT_TRY(MessageHeader h, header_of(type, body, fds));
  test_point_before_sending(type);
  CKPT_CHECK(send_parts(socket, view(&h, sizeof h), fds, MSG_DONTWAIT));
  CKPT_CHECK(send_parts(socket, body, {}, MSG_DONTWAIT));
  test_point_after_sending(type);
  return {};
}

Result<std::optional<Message>> receive_message(int socket, size_t max_bytes) {
  MessageReader reader(max_bytes);
  for (;;) {
    CKPT_TRY(bool more, reader.receive(socket, 0));
    if (!more) return std::nullopt;
    if (reader.ready()) return reader.take();
  }
}

Result<std::optional<Message>> receive_message(int socket, size_t max_bytes,
                                               Clock::time_point deadline) {
  MessageReader reader(max_bytes);
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return fail("no whole message has come in time");
    pollfd p{socket, POLLIN, 0};
    if (::poll(&p, 1, static_cast<int>(std::min<i64>(left.count(), 60'000))) <= 0) continue;
    CKPT_TRY(bool more, reader.receive(socket, MSG_DONTWAIT));
    if (!more) return std::nullopt;
    if (reader.ready()) return reader.take();
  }
}

Result<> set_receive_timeout(int socket, std::chrono::milliseconds timeout) {
  timeval tv{timeout.count() / 1000, (timeout.count() % 1000) * 1000};
  if (::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv) < 0)
    return fail_errno("cannot set a timeout on a socket");
  return {};
}

Result<> send_descriptor(int socket, int fd) {
  constexpr std::byte kByte{0};
  return send_parts(socket, {&kByte, 1}, {&fd, 1});
}

Result<std::optional<UniqueFd>> receive_descriptor(int socket) {
  char byte;
  Arrived arrived;
  CKPT_TRY(size_t n, receive_some(socket, {&byte, 1}, arrived, 0));
  if (n == 0) return std::nullopt;
  if (arrived.fds.size() != 1)
    return fail("a message came with {} descriptors instead of one", arrived.fds.size());
  return std::move(arrived.fds[0]);
}

}  // namespace ckpt
