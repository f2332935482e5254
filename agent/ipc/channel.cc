// SPDX-License-Identifier: Apache-2.0
#include "agent/ipc/channel.h"

#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/ipc/unix_socket.h"

namespace ckpt::agent {

Result<> Channel::send(protocol::Type type, const Writer &body, std::span<const int> fds) const {
  return send_message(fd(), static_cast<u16>(type), body.bytes(), fds);
}

bool Channel::hung_up() const {
  pollfd p{socket_.get(), POLLRDHUP, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP)) != 0;
}

Result<std::optional<Incoming>> Channel::receive() const {
  CKPT_CHECK(wait_readable(fd()));
  std::scoped_lock lock(fork_gate());
  CKPT_CHECK(set_receive_timeout(fd(), kMessageTimeout));
  CKPT_TRY(std::optional<Message> message, receive_message(fd(), kMaxRequestBytes));
  if (!message) return std::nullopt;
  Incoming incoming{protocol::Type{message->type}, std::move(message->body), {}};
  for (UniqueFd &fd : message->fds) incoming.fds.emplace_back(std::move(fd), lock);
  return incoming;
}

Result<Incoming> Channel::answer() const {
  CKPT_TRY(std::optional<Incoming> message, receive());
  if (!message) return fail("the peer hung up");
  if (message->type != protocol::Type::Failed) return std::move(*message);
  Reader in = message->reader();
  std::string what(in.str());
  std::string hint(in.str());
  if (!in.done()) return fail("the answer Failed is malformed");
  return fail_with_hint(std::move(what), std::move(hint));
}

Result<> wait_readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  while (::poll(&p, 1, -1) < 0)
    if (errno != EINTR) return fail_errno("cannot wait for a message");
  if (p.revents & POLLNVAL) return fail("the connection is closed");
  return {};
}

Result<> Listener::open(const std::string &folder) {
  u32 random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) < 0) random = static_cast<u32>(::clock());
  std::string path =
      fmt::format("{}/{}{}-{:08x}.sock", folder, protocol::kAgentSocketPrefix, ::getpid(), random);
  CKPT_TRY(socket_, OwnFd::make([&] { return listen_unix(path); }));
  path_ = std::move(path);
  return {};
}

void Listener::close() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
  socket_.close();
}

Result<Channel> Listener::accept() const {
  CKPT_CHECK(wait_readable(fd()));
  CKPT_TRY(OwnFd socket, OwnFd::make([&] { return accept_unix(fd()); }));
  return Channel(std::move(socket));
}

}  // namespace ckpt::agent
