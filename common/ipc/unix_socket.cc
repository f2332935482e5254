// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/unix_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>

#include "common/base/test_points.h"

namespace ckpt {
namespace {

constexpr size_t kReceivedAtOnce = 1u << 20;
constexpr std::chrono::seconds kConnectTimeout{15};

struct FrameHeader {
  u32 size;
  u16 type;
  u16 fds;
};
static_assert(sizeof(FrameHeader) == 8);

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

// A server accepts its own user and root. Root, as a client, may connect to any user's server.
enum class Side { Client, Server };
Result<UniqueFd> authorised(UniqueFd fd, Side side) {
  CKPT_TRY(ucred peer, peer_credentials(fd.get()));
  bool root_may_connect = side == Side::Client && ::geteuid() == 0;
  if (peer.uid != ::geteuid() && peer.uid != 0 && !root_may_connect)
    return fail("the peer has uid {} instead of {}", peer.uid, ::geteuid());
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
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxMessageFds)> bytes{};
};

void attach(msghdr &m, Control &control, std::span<const int> fds) {
  if (fds.empty()) return;
  m.msg_control = control.bytes.data();
  m.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
}

void collect(msghdr &m, std::vector<UniqueFd> &fds) {
  for (cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
}

// The descriptors go with the first byte.
Result<> send_parts(int socket, ByteView data, std::span<const int> fds) {
  while (!data.empty() || !fds.empty()) {
    iovec iov{const_cast<std::byte *>(data.data()), data.size()};
    msghdr m{};
    m.msg_iov = &iov;
    m.msg_iovlen = 1;
    Control control;
    attach(m, control, fds);
    ssize_t n = ::sendmsg(socket, &m, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot send a message");
    data = data.subspan(static_cast<size_t>(n));
    fds = {};
  }
  return {};
}

Error truncated(size_t received) {
  if (received >= kMaxMessageFds)
    return {fmt::format("a message came with more than {} descriptors", kMaxMessageFds), ""};
  return {"no file descriptor is left to receive the one that another process has sent",
          resource_hint(EMFILE)};
}

// Some of the bytes, at least one; 0: the peer hung up. Appends the descriptors that come with
// them.
Result<size_t> receive_some(int socket, std::span<char> into, std::vector<UniqueFd> &fds) {
  iovec iov{into.data(), into.size()};
  Control control;
  for (;;) {
    msghdr m{};
    m.msg_iov = &iov;
    m.msg_iovlen = 1;
    m.msg_control = control.bytes.data();
    m.msg_controllen = control.bytes.size();
    ssize_t n = ::recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == ECONNRESET) return 0u;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return fail("no answer in time");
    if (n < 0) return fail_errno("cannot receive a message");
    collect(m, fds);
    // What a process has no descriptor left for is dropped (unix(7), SCM_RIGHTS).
    if (m.msg_flags & MSG_CTRUNC) return Failure(truncated(fds.size()));
    return static_cast<size_t>(n);
  }
}

// Reads exactly `size` bytes, and appends the descriptors that come with them to `fds`. False: the
// peer hung up before the first byte.
Result<bool> receive_parts(int socket, void *data, size_t size, std::vector<UniqueFd> &fds) {
  std::span<char> into(static_cast<char *>(data), size);
  for (size_t done = 0; done < size;) {
    CKPT_TRY(size_t n, receive_some(socket, into.subspan(done), fds));
    if (n == 0 && done == 0) return false;
    if (n == 0) return fail("the peer hung up in the middle of a message");
    // Each byte can bring more of them: a hostile peer could use up all that we may have.
    if (fds.size() > kMaxMessageFds)
      return fail("a message came with more than {} descriptors", kMaxMessageFds);
    done += n;
  }
  return true;
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
  return authorised(std::move(fd), Side::Client);
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
  CKPT_TRY(UniqueFd checked, authorised(std::move(fd), Side::Client));
  return checked;
}

Result<UniqueFd> accept_unix(int listener) {
  for (;;) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (fd) return authorised(std::move(fd), Side::Server);
    if (errno != EINTR) return fail_errno("cannot accept a connection");
  }
}

Result<ucred> peer_credentials(int socket) {
  ucred cred{};
  socklen_t n = sizeof cred;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
    return fail_errno("cannot read the credentials of the peer");
  return cred;
}

Result<std::pair<UniqueFd, UniqueFd>> socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
    return fail_errno("cannot create a socket pair");
  return std::pair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Result<> send_message(int socket, u16 type, ByteView body, std::span<const int> fds) {
  if (body.size() > kMaxMessageBytes || fds.size() > kMaxMessageFds)
    return fail("message of {} bytes and {} descriptors is too large", body.size(), fds.size());
  FrameHeader h{static_cast<u32>(body.size()), type, static_cast<u16>(fds.size())};
  test_point_before_sending(type);
  CKPT_CHECK(send_parts(socket, view(&h, sizeof h), fds));
  CKPT_CHECK(send_parts(socket, body, {}));
  test_point_after_sending(type);
  return {};
}

Result<std::optional<Message>> receive_message(int socket, size_t max_bytes) {
  FrameHeader h{};
  Message m;
  CKPT_TRY(bool more, receive_parts(socket, &h, sizeof h, m.fds));
  if (!more) return std::nullopt;
  if (h.size > max_bytes || h.fds > kMaxMessageFds)
    return fail(
        "the peer announced a message of {} bytes and {} descriptors, which exceeds the limit",
        h.size, h.fds);
  m.type = h.type;
  // Not more memory than has arrived, whatever the header says.
  while (m.body.size() < h.size) {
    size_t at = m.body.size(), n = std::min<size_t>(h.size - at, kReceivedAtOnce);
    m.body.resize(at + n);
    CKPT_TRY(bool whole, receive_parts(socket, m.body.data() + at, n, m.fds));
    if (!whole) return fail("the peer hung up in the middle of a message");
  }
  if (m.fds.size() != h.fds)
    return fail("a message came with {} descriptors instead of {}", m.fds.size(), h.fds);
  test_point_after_receiving(h.type);
  return m;
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
  std::vector<UniqueFd> fds;
  CKPT_TRY(bool received, receive_parts(socket, &byte, 1, fds));
  if (!received) return std::nullopt;
  if (fds.size() != 1) return fail("a message came with {} descriptors instead of one", fds.size());
  return std::move(fds[0]);
}

}  // namespace ckpt
