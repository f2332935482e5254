// SPDX-License-Identifier: Apache-2.0
#include "manager-client/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "agent/ipc/channel.h"
#include "common/base/log.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::manager_client {
namespace {

using std::chrono::milliseconds;

// A Manager that stops reading counts as lost.
constexpr timeval kSendTimeout{2, 0};
// A Manager that is silent for a shorter time may just be slow.
constexpr milliseconds kMinPatience{3'000};
constexpr milliseconds kDefaultPatience{10'000};  // until a Manager has announced its grace period

}  // namespace

Connection::Connection(std::string path)
    : path_(std::move(path)),
      link_(path_.empty() ? Link::Off : Link::Seeking),
      standalone_(link_ == Link::Off) {}

// If sending fails the connection is useless. The agent's thread sees the hang-up and cleans up.
void Connection::send(const managed::ToManager &message) {
  Writer body = managed::encode(message);
  if (!send_message(socket_.get(), managed::number_of(message), body.bytes()))
    ::shutdown(socket_.get(), SHUT_RDWR);
}

void Connection::tell(const managed::ToManager &message) {
  if (joined()) send(message);
}

milliseconds Connection::patience() const {
  return grace_ ? std::max(*grace_, kMinPatience) : kDefaultPatience;
}

// A message that has arrived and was not read yet is a sign of life, too.
void Connection::watch(bool something_waits) {
  if (!connected() || standalone_ || !something_waits) return heartbeat_.stop();
  pollfd unread{socket_.get(), POLLIN, 0};
  if (::poll(&unread, 1, 0) > 0) heartbeat_.heard();
  switch (heartbeat_.turn(Clock::now(), patience())) {
    case Heartbeat::Action::None: return;
    case Heartbeat::Action::Ask: return send(managed::to_manager::Ping{});
    case Heartbeat::Action::GiveUp: silent_ = true; ::shutdown(socket_.get(), SHUT_RDWR);
  }
}

// ---- the agent's thread

Connection::Attempt Connection::attempt() const {
  bool full = false;
  Result<agent::OwnFd> socket = agent::OwnFd::make([&]() -> Result<UniqueFd> {
    CKPT_TRY(std::optional<UniqueFd> fd, connect_unix_at_once(path_));
    full = !fd;
    if (full) return fail("it does not accept any more connections");
    return std::move(*fd);
  });
  return {std::move(socket), full};
}

// A Manager with a full queue exists, so it gets as much time as one that is silent.
Connection::Outcome Connection::adopt(Attempt attempt) {
  schedule_attempt();
  if (!attempt.socket) {
    milliseconds limit = attempt.queue_full ? patience() : grace();
    return give_up_after(limit, attempt.socket.error().what) ? Outcome::GaveUp : Outcome::Retry;
  }
  ::setsockopt(attempt.socket->get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  (void)set_receive_timeout(attempt.socket->get(), agent::kMessageTimeout);
  socket_ = std::move(*attempt.socket);
  link_ = Link::Greeting;
  return Outcome::Connected;
}

Result<managed::ToProgram> Connection::receive() const {
  CKPT_TRY(std::optional<Message> m, receive_message(socket_.get(), managed::kMaxStatusBytes));
  if (!m) return fail("it hung up");
  return managed::decode_to_program(m->type, m->body);
}

bool Connection::welcome(milliseconds grace) {
  grace_ = grace;
  if (std::exchange(link_, Link::Joined) == Link::Joined) return false;
  if (std::exchange(standalone_, false)) log::warn("connected to a Manager again");
  return true;
}

void Connection::refuse() {
  standalone_ = true;
  socket_.close();
  link_ = Link::Off;
}

bool Connection::lost(const std::string &why) {
  bool was_joined = joined(), silent = silent_;
  disconnect();
  schedule_attempt();
  if (standalone_) return false;
  if (silent) {
    log::warn("the Manager has not answered for {} s; the program continues without it",
              std::chrono::ceil<std::chrono::seconds>(patience()).count());
    standalone_ = true;
    return true;
  }
  if (!was_joined) return give_up_after(grace(), why);
  log::info("lost the Manager ({}); waiting {} ms for another one", why, grace().count());
  lost_at_ = Clock::now();
  return false;
}

bool Connection::pause() {
  if (!connected()) return false;
  disconnect();
  return true;
}

void Connection::resume() {
  if (seeking()) lost_at_ = next_attempt_ = Clock::now();
}

void Connection::disconnect() {
  socket_.close();
  link_ = Link::Seeking;
  silent_ = false;
  heartbeat_.stop();
}

void Connection::schedule_attempt() {
  next_attempt_ = Clock::now() + (standalone_ ? kStandaloneRetryPause : kRetryPause);
}

// True: there was no Manager for longer than `limit`.
bool Connection::give_up_after(milliseconds limit, const std::string &why) {
  if (standalone_ || Clock::now() < lost_at_ + limit) return false;
  log::warn("no Manager: {}; the program continues without one", why);
  standalone_ = true;
  return true;
}

}  // namespace ckpt::manager_client
