// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/message_reader.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/test_points.h"

namespace ckpt {
namespace {

constexpr size_t kReceivedAtOnce = 1u << 20;

// Room for descriptors and for the sender (cmsg(3), unix(7)).
struct ReceivedControl {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxMessageFds) +
                                        CMSG_SPACE(sizeof(ucred))> bytes{};
};

void collect_fds(const cmsghdr &c, std::vector<UniqueFd> &fds) {
  size_t count = (c.cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < count; i++) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(&c) + i * sizeof fd, sizeof fd);
    fds.emplace_back(fd);
  }
}

void collect(msghdr &m, Arrived &arrived) {
  for (cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_RIGHTS) collect_fds(*c, arrived.fds);
    if (c->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
    arrived.sender = sender.pid;
  }
}

Error truncated(size_t received) {
  if (received >= kMaxMessageFds)
    return {fmt::format("a message came with more than {} descriptors", kMaxMessageFds), ""};
  return {"no file descriptor is left to receive the one that another process has sent",
          resource_hint(EMFILE)};
}

}  // namespace

Result<size_t> receive_some(int socket, std::span<char> into, Arrived &arrived, int flags) {
  iovec iov{into.data(), into.size()};
  ReceivedControl control;
  for (;;) {
    msghdr m{};
    m.msg_iov = &iov;
    m.msg_iovlen = 1;
    m.msg_control = control.bytes.data();
    m.msg_controllen = control.bytes.size();
    ssize_t n = ::recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == ECONNRESET) return 0u;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return fail("no answer in time");
    if (n < 0) return fail_errno("cannot receive a message");
    collect(m, arrived);
    // What a process has no descriptor left for is dropped (unix(7), SCM_RIGHTS).
    if (m.msg_flags & MSG_CTRUNC) return Failure(truncated(arrived.fds.size()));
    // Each byte can bring more of them: a hostile peer could use up all that we may have.
    if (arrived.fds.size() > kMaxMessageFds)
      return fail("a message came with more than {} descriptors", kMaxMessageFds);
    return static_cast<size_t>(n);
  }
}

Result<bool> MessageReader::receive(int socket, int flags) {
  bool in_header = header_bytes_ < sizeof header_;
  std::span<char> into;
  if (in_header) {
    into = {reinterpret_cast<char *>(&header_) + header_bytes_, sizeof header_ - header_bytes_};
  } else {
    // Not more memory than has arrived, whatever the header says.
    size_t n = std::min<size_t>(header_.size - body_bytes_, kReceivedAtOnce);
    message_.body.resize(body_bytes_ + n);
    into = {reinterpret_cast<char *>(message_.body.data()) + body_bytes_, n};
  }
  Arrived arrived{std::move(message_.fds), 0};
  Result<size_t> received = receive_some(socket, into, arrived, flags);
  message_.fds = std::move(arrived.fds);
  if (!received) return Failure(received.error());
  if (*received == 0 && !has_begun()) return false;
  if (*received == 0) return fail("the peer hung up in the middle of a message");
  sender_ = sender_.value_or(arrived.sender) == arrived.sender ? arrived.sender : 0;
  (in_header ? header_bytes_ : body_bytes_) += *received;
  if (in_header && header_bytes_ == sizeof header_) CKPT_CHECK(begin_body());
  ready_ = header_bytes_ == sizeof header_ && body_bytes_ == header_.size;
  if (ready_ && message_.fds.size() != header_.fds)
    return fail("a message came with {} descriptors instead of {}", message_.fds.size(),
                header_.fds);
  return true;
}

Result<> MessageReader::begin_body() {
  if (header_.size > max_bytes_ || header_.fds > kMaxMessageFds)
    return fail(
        "the peer announced a message of {} bytes and {} descriptors, which exceeds the limit",
        header_.size, header_.fds);
  message_.type = header_.type;
  return {};
}

Message MessageReader::take(pid_t *sender) {
  test_point_after_receiving(message_.type);
  if (sender) *sender = sender_.value_or(0);
  sender_.reset();
  header_bytes_ = body_bytes_ = 0;
  ready_ = false;
  return std::exchange(message_, {});
}

}  // namespace ckpt
