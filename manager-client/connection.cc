// SPDX-License-Identifier: Apache-2.0
//
// The connection to the Manager: how it is found, greeted and lost.
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/base/fnv.h"
#include "common/base/log.h"
#include "common/ipc/unix_socket.h"
#include "manager-client/manager_client.h"

namespace ckpt::manager_client {

namespace out = managed::to_manager;
using std::chrono::milliseconds;

namespace {

// A Manager that does not read is none.
constexpr timeval kSendTimeout{2, 0};

i32 priority() {
  const char *text = ::secure_getenv("CKPT_PRIORITY");
  return text ? static_cast<i32>(std::strtol(text, nullptr, 10)) : 0;
}

// A hash of the program's path and its arguments.
u64 kind_of_program() {
  u64 hash = kFnvStart;
  char some[4096];
  ssize_t n = ::readlink("/proc/self/exe", some, sizeof some);
  if (n > 0) hash = fnv1a({some, static_cast<size_t>(n)}, hash);
  Result<agent::OwnFd> in = agent::OwnFd::make([]() -> Result<UniqueFd> {
    return UniqueFd(::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  });
  while (in && (n = ::read(in->get(), some, sizeof some)) != 0) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0) hash = fnv1a({some, static_cast<size_t>(n)}, hash);
  }
  return hash;
}

std::string manager_socket() {
  const char *path = ::secure_getenv(managed::kSocketVariable);
  return path ? path : "";
}

}  // namespace

// From the first moment on: the agent's thread begins with it.
ManagerClient::ManagerClient(agent::Lifecycle &life)
    : life_(life),
      link_(manager_socket().empty() ? Link::Off : Link::Seeking),
      alone_(link_ == Link::Off) {}

// What cannot be said is over: the agent's thread sees the hang-up.
void ManagerClient::say(const managed::ToManager &message) {
  Writer body = managed::encode(message);
  if (!send_message(socket_.get(), managed::number_of(message), body.bytes()))
    ::shutdown(socket_.get(), SHUT_RDWR);
}

managed::Standing ManagerClient::standing() const {
  using managed::Standing;
  if (life_.state() == protocol::State::Suspended)
    return evicted_ ? Standing::Evicted : Standing::Suspended;
  if (context_) return Standing::Running;
  return gpu_.empty() || (place_ && further_ == 0) ? Standing::Unassigned : Standing::Assigned;
}

// All that the Manager has to know.
out::Join ManagerClient::introduction() const {
  using std::chrono::duration_cast;
  u64 age = static_cast<u64>(duration_cast<milliseconds>(Clock::now() - born_).count());
  std::string name(
      std::string_view(program_invocation_short_name).substr(0, managed::kMaxNameBytes));
  return {managed::kVersion,
          static_cast<u32>(::getpid()),
          name,
          priority(),
          standing(),
          gpu_,
          used(),
          variables_,
          kept_,
          on_disk_,
          exclusive_,
          age,
          context_cost_.has_value(),
          context_cost_.value_or(0)};
}

// A connection is not yet a Manager: one that was stopped has a socket that takes them.
void ManagerClient::greet() {
  link_ = Link::Greeting;
  report_every_ = milliseconds(0);
  joined_ = introduction();
  told_ = used();
  if (managed(Api::kOpenCl)) say(out::Uses{apis_});
  say(joined_);
}

// What has changed since it was greeted, which may be long ago, and what is waited for.
void ManagerClient::be_welcome(const managed::to_program::Welcome &m) {
  grace_ = milliseconds(m.reconnect_ms);
  if (std::exchange(link_, Link::Joined) == Link::Joined) return;
  if (std::exchange(alone_, false)) log::warn("there is a Manager again");
  out::Join now = introduction();
  now.age_ms = joined_.age_ms;
  if (managed(Api::kOpenCl)) say(out::Uses{apis_});
  if (now != joined_) say(now);
  if (!kind_) kind_ = kind_of_program();
  say(out::Workload{*kind_});
  told_ = used();
  if (holder_ != 0) say(out::Holder{holder_});
  if (place_) say_where_from();
  for (auto &[ticket, r] : requests_)
    if (r.fate == Fate::Waits) say_request(ticket, r);
}

void ManagerClient::seek() {
  bool full = false;
  Result<agent::OwnFd> socket = agent::OwnFd::make([&]() -> Result<UniqueFd> {
    CKPT_TRY(std::optional<UniqueFd> fd, connect_unix_at_once(manager_socket()));
    full = !fd;
    if (full) return fail("it does not take any more connections");
    return std::move(*fd);
  });
  std::lock_guard lock(mutex_);
  next_try_ = Clock::now() + (alone_ ? kAlonePause : kSeekPause);
  if (!socket) {
    return found_none(full ? patience() : grace(), socket.error().what);
  }
  ::setsockopt(socket->get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  (void)set_receive_timeout(socket->get(), agent::kMessageTimeout);
  socket_ = std::move(*socket);
  greet();
}

// Somebody who takes connections and hangs up is no more there than nobody: he is not asked again
// and again, nor for ever.
void ManagerClient::lost(const std::string &why) {
  bool joined = link_ == Link::Joined, silent = std::exchange(silent_, false);
  socket_.close();
  link_ = Link::Seeking;
  drop_ahead();
  signalled_ = false;
  liveness_.rest();
  next_try_ = Clock::now() + (alone_ ? kAlonePause : kSeekPause);
  if (alone_) return;
  if (silent) {
    log::warn("the Manager has not answered for {} s; the program goes on without",
              std::chrono::ceil<std::chrono::seconds>(patience()).count());
    return be_alone();
  }
  if (!joined) return found_none(grace(), why);
  log::info("the Manager is gone ({}); waiting {} ms for another", why, grace().count());
  lost_at_ = Clock::now();
}

// Nobody is there, or nobody who says welcome. For how long that is borne, since there was one.
void ManagerClient::found_none(milliseconds most, const std::string &why) {
  if (alone_ || Clock::now() < lost_at_ + most) return;
  log::warn("no Manager: {}; the program goes on without", why);
  be_alone();
}

void ManagerClient::settle(Request &r, Fate fate, std::string why) {
  r.fate = fate;
  r.why = std::move(why);
  // From now on, whatever becomes of the connection.
  if (r.alone && fate == Fate::Granted) exclusive_ = true;
  changed_.notify_all();
}

void ManagerClient::be_alone() {
  alone_ = true;
  if (place_) settle(*place_, Fate::Granted);
  for (auto &[ticket, r] : requests_)
    if (r.fate == Fate::Waits) settle(r, Fate::Granted);
}

}  // namespace ckpt::manager_client
