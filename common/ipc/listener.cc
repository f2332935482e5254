// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>

#include "common/base/log.h"
#include "common/ipc/peer_source.h"

namespace ckpt {
namespace {

using namespace std::chrono_literals;

constexpr auto kPause = 100ms;
constexpr auto kWarningInterval = 60s;
// In a turn, of one socket: so few that they have room behind the connections that have just been
// handed out.
constexpr int kAcceptedAtOnce = 8;
constexpr u64 kTimer = ~u64{0}, kDoors = u64{1} << 63;

// Whether the peer has sent something; no value: it has hung up.
std::optional<bool> has_spoken(int socket) {
  char byte;
  ssize_t n = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n > 0) return true;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  return std::nullopt;
}

// accept(2): also errors of the connection that has waited in the queue.
bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// Waiting connections may use a quarter of the descriptors that this process may have.
Newcomers::Limits bounded(Newcomers::Limits limits) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) < 0) return limits;
  size_t most = std::max<size_t>(files.rlim_cur / 4, 1);
  limits.waiting = std::min(limits.waiting, most);
  limits.waiting_of_source = std::min(limits.waiting_of_source, most);
  return limits;
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::create(std::string of, Newcomers::Limits limits) {
  std::unique_ptr<Listener> l(new Listener(std::move(of), bounded(limits)));
  l->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!l->epoll_) return fail_errno("cannot create an epoll instance");
  l->timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!l->timer_) return fail_errno("cannot create a timer");
  CKPT_CHECK(l->watch(l->timer_.get(), kTimer));
  return l;
}

Result<> Listener::watch(int fd, u64 key) {
  epoll_event e{EPOLLIN, {.u64 = key}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) < 0)
    return fail_errno("cannot wait for a socket");
  return {};
}

Result<> Listener::listen(UniqueFd socket, int door) {
  // The connection that is there may be gone when it is accepted (accept(2)).
  if (::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK) < 0)
    return fail_errno("cannot make a socket non-blocking");
  CKPT_CHECK(watch(socket.get(), kDoors | doors_.size()));
  doors_.push_back({std::move(socket), door});
  watching_ = true;
  return {};
}

void Listener::set_room(size_t connections) {
  bool first = room_ == 0 && connections > 0;
  room_ = connections;
  watch_doors(room_ > 0 && !paused_until_);
  if (first) wake_at(1ns);  // some may wait here
}

void Listener::watch_doors(bool yes) {
  if (watching_ == yes) return;
  watching_ = yes;
  for (size_t i = 0; i < doors_.size(); i++) {
    epoll_event e{yes ? EPOLLIN : 0u, {.u64 = kDoors | i}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, doors_[i].socket.get(), &e);
  }
}

Listener::Turn Listener::turn(Time now) {
  std::array<epoll_event, 256> events;
  int n = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  Turn turn;
  // Connections that have spoken make room for the next ones.
  std::vector<u64> doors;
  for (int i = 0; i < n; i++) {
    u64 key = events[static_cast<size_t>(i)].data.u64;
    if (key == kTimer) continue;
    if (key & kDoors)
      doors.push_back(key & ~kDoors);
    else
      note_speech(key);
  }
  hand_out(now, turn);
  for (u64 door : doors) accept_from(doors_[door], now, turn);
  for (Id id : newcomers_.overdue(now)) expel(id, true, turn);
  hand_out(now, turn);
  if (paused_until_ && now >= *paused_until_) paused_until_.reset();
  watch_doors(room_ > 0 && !paused_until_);
  set_timer(now);
  return turn;
}

void Listener::accept_from(Door &door, Time now, Turn &turn) {
  for (int i = 0; i < kAcceptedAtOnce; i++) {
    UniqueFd socket(::accept4(door.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket && is_shortage(errno)) return pause(now, errno);
    if (!socket && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (!socket) continue;
    std::string source = source_of(socket.get());
    Newcomers::Entered e = newcomers_.enter(source, now);
    if (e.instead_of) expel(*e.instead_of, false, turn);
    if (!watch(socket.get(), e.id))
      newcomers_.leave(e.id);
    else
      all_[e.id] = {std::move(socket), std::move(source), door.mark};
  }
}

void Listener::pause(Time now, int error) {
  paused_until_ = now + kPause;
  if (warned_at_ && now < *warned_at_ + kWarningInterval) return;
  warned_at_ = now;
  const char *hint = resource_hint(error);
  log::warn("{} accepts no connection for now: {}{}", of_, std::strerror(error),
            *hint ? fmt::format(" ({})", hint) : "");
}

// It is not watched from now on. Whether it hangs up is for the service to see.
void Listener::note_speech(Id id) {
  auto found = all_.find(id);
  if (found == all_.end() || !found->second.socket) return;  // expelled in this turn
  std::optional<bool> spoken = has_spoken(found->second.socket.get());
  if (spoken && !*spoken) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.socket.get(), nullptr);
  if (spoken) return newcomers_.spoke(id);
  newcomers_.leave(id);
  all_.erase(found);
}

void Listener::hand_out(Time now, Turn &turn) {
  while (room_ > turn.spoke.size()) {
    std::optional<Newcomers::Entered> next = newcomers_.next(now);
    if (!next) return;
    if (next->instead_of) expel(*next->instead_of, false, turn);
    Newcomer &n = all_.at(next->id);
    turn.spoke.push_back({std::move(n.socket), next->id, n.source, n.door});
  }
}

void Listener::expel(Id id, bool late, Turn &turn) {
  auto found = all_.find(id);
  if (found == all_.end()) return;
  turn.expelled.push_back({id, found->second.source, late, !found->second.socket});
  forget(found->second);
  all_.erase(found);
}

// A process that was forked may still have the socket, which would stay in the epoll instance.
void Listener::forget(Newcomer &newcomer) {
  if (newcomer.socket) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, newcomer.socket.get(), nullptr);
  newcomer.socket.reset();
}

void Listener::left(Id id) {
  newcomers_.leave(id);
  all_.erase(id);
  // Another one may have its place now.
  if (room_ > 0 && newcomers_.wake() == Time{}) wake_at(1ns);
}

// The timer only wakes the service; turn() compares the times that it is told.
void Listener::set_timer(Time now) {
  std::optional<Time> next = room_ > 0 ? newcomers_.wake() : newcomers_.first_overdue();
  if (paused_until_) next = std::min(next.value_or(*paused_until_), *paused_until_);
  u64 count;
  (void)!::read(timer_.get(), &count, sizeof count);
  wake_at(next ? std::max<std::chrono::nanoseconds>(*next - now, 1ms) : 0ns);
}

// 0: never.
void Listener::wake_at(std::chrono::nanoseconds from_now) {
  itimerspec when{};
  when.it_value = {from_now.count() / 1'000'000'000, from_now.count() % 1'000'000'000};
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

}  // namespace ckpt
