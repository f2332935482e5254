// SPDX-License-Identifier: Apache-2.0
#include "tools/job/entrance.h"

#include <sys/epoll.h>

#include <array>

#include "common/base/log.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

// A program may be allowed few descriptors.
constexpr Newcomers::Limits kLimits{.waiting = 96,
                                    .waiting_of_source = 48,
                                    .greeting = 16,
                                    .greeting_of_source = 8,
                                    .time = 10s,
                                    .fair_time = 1s};
constexpr u64 kListener = 0;  // no newcomer's number

}  // namespace

Result<std::unique_ptr<Entrance>> Entrance::open(UniqueFd socket, const storage::Key &key) {
  std::unique_ptr<Entrance> e(new Entrance(key));
  CKPT_TRY(e->listener_, Listener::create("the job's port", kLimits));
  CKPT_CHECK(e->listener_->listen(std::move(socket)));
  e->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!e->epoll_) return fail_errno("cannot create an epoll instance");
  CKPT_CHECK(e->watch(e->listener_->fd(), kListener));
  return e;
}

Result<> Entrance::watch(int fd, u64 id) {
  epoll_event e{EPOLLIN, {.u64 = id}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) < 0)
    return fail_errno("cannot wait for a socket");
  return {};
}

std::vector<Opening> Entrance::turn(Listener::Time now) {
  std::array<epoll_event, 32> events;
  int n = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  Listener::Turn turn = listener_->turn(now);
  for (const Listener::Expelled &x : turn.expelled) end(x.id);
  for (Listener::Connection &c : turn.spoke) begin(std::move(c));
  std::vector<Opening> let_in;
  for (int i = 0; i < n; i++) {
    u64 id = events[static_cast<size_t>(i)].data.u64;
    auto found = openings_.find(id);
    if (found == openings_.end() || !go_on(id)) continue;
    Opening opening = std::move(found->second);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, opening.descriptor(), nullptr);
    openings_.erase(found);
    listener_->left(id);
    let_in.push_back(std::move(opening));
  }
  return let_in;
}

void Entrance::begin(Listener::Connection c) {
  Result<Opening> opening = Opening::begin(std::move(c.socket));
  if (opening && watch(opening->descriptor(), c.id))
    openings_.emplace(c.id, std::move(*opening));
  else
    listener_->left(c.id);
}

void Entrance::end(Listener::Id id) {
  auto found = openings_.find(id);
  if (found == openings_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.descriptor(), nullptr);
  openings_.erase(found);
}

bool Entrance::go_on(Listener::Id id) {
  Result<bool> shown = openings_.at(id).receive(key_);
  if (shown) return *shown;
  log::debug("refused a connection to the job's port: {}", shown.error().what);
  end(id);
  listener_->left(id);
  return false;
}

}  // namespace ckpt::tools
