// SPDX-License-Identifier: Apache-2.0
//
// The calls of the program's threads, and the connection. What the Manager orders is in
// eviction.cc.
#include "agent/tenant.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "agent/channel.h"
#include "common/gpu.h"
#include "common/ipc.h"
#include "common/log.h"

namespace ckpt {

namespace out = managed::to_manager;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kSeekPause{50};
constexpr milliseconds kAlonePause{2000};
// A Manager that does not read is none.
constexpr timeval kSendTimeout{2, 0};

i32 priority() {
  const char *text = ::secure_getenv("CKPT_PRIORITY");
  return text ? static_cast<i32>(std::strtol(text, nullptr, 10)) : 0;
}

std::string manager_socket() {
  const char *path = ::secure_getenv(managed::kSocketVariable);
  return path ? path : "";
}

}  // namespace

// From the first moment on: the agent's thread begins with it.
Tenant::Tenant(Lifecycle &life)
    : life_(life), link_(manager_socket().empty() ? Link::Off : Link::Seeking) {}

// ---- the program's threads

Tenant::Place Tenant::connect(u64 variables, bool exclusive, Api api) {
  std::lock_guard one_at_a_time(connecting_);
  std::unique_lock lock(mutex_);
  bool first = apis_ == 0 || apis_ == api || gpu_.empty();
  if (api == Api::kCuda) {
    variables_ = variables;
    exclusive_ = exclusive;
  }
  return first ? connect_first(lock, api) : connect_further(lock, api);
}

// Another API may have been before and found no device of its kind here that is managed.
Tenant::Place Tenant::connect_first(std::unique_lock<std::mutex> &lock, Api api) {
  u32 before = std::exchange(apis_, api);
  if (before != api) {
    context_ = context_seen_ = false;
    used_by_ = {};
  }
  if (link_ == Link::Off || link_ == Link::Alone) return {};
  bool known = before == api || (before == 0 && api == Api::kCuda);
  if (link_ == Link::Joined && !known) say(out::Uses{apis_});
  return wait_for_place(lock);
}

// The program is not evicted until this API is started, too (ready()): it would be left behind.
Tenant::Place Tenant::connect_further(std::unique_lock<std::mutex> &lock, Api api) {
  ready_ = false;
  while (life_.state() != protocol::State::Running) changed_.wait_for(lock, kSeekPause);
  if (!managed(api) && link_ != Link::Off && link_ != Link::Alone) {
    further_ = api;
    Place place = wait_for_place(lock);
    further_ = 0;
    if (!place.denied.empty()) return place;
  }
  return managed(api) ? Place{gpu_, {}, false} : Place{{}, {}, true};
}

Tenant::Place Tenant::wait_for_place(std::unique_lock<std::mutex> &lock) {
  place_.emplace();
  if (link_ == Link::Joined) say_where_from();
  changed_.wait(lock, [&] { return place_->fate != Fate::Waits; });
  Request answer = *std::exchange(place_, std::nullopt);
  bool granted = answer.fate == Fate::Granted;
  return {granted ? gpu_ : "", answer.why, granted && gpu_.empty() && link_ == Link::Joined};
}

void Tenant::say_where_from() {
  if (further_ != 0) return say(out::AlsoUses{further_});
  say(out::Connect{variables_, exclusive_});
}

void Tenant::ready() {
  std::lock_guard lock(mutex_);
  ready_ = true;
  answer_signal();
}

void Tenant::context_made(Api api) {
  std::lock_guard lock(mutex_);
  if (!managed(api) || std::exchange(context_, true)) return;
  if (link_ == Link::Joined) say(out::ContextCheck{});
}

Result<u32> Tenant::ask(u64 bytes, Api api) {
  std::unique_lock lock(mutex_);
  u32 ticket = next_ticket_++;
  Request &r = requests_[ticket];
  r.bytes = bytes;
  if (link_ == Link::Off || link_ == Link::Alone || !managed(api)) r.fate = Fate::Granted;
  if (link_ == Link::Joined && managed(api)) say(out::CudaMalloc{ticket, bytes});
  changed_.wait(lock, [&] { return r.fate != Fate::Waits; });
  if (r.fate == Fate::Granted) return ticket;
  std::string why = std::move(r.why);
  requests_.erase(ticket);
  return fail("{}", why);
}

void Tenant::done(u32 ticket, u64 used, Api api) {
  std::lock_guard lock(mutex_);
  requests_.erase(ticket);
  if (!managed(api)) return;
  used_by_[api] = used;
  if (link_ == Link::Joined) say(out::MallocDone{ticket, this->used()});
}

void Tenant::freed(u64 used, Api api) {
  std::lock_guard lock(mutex_);
  if (!managed(api)) return;
  used_by_[api] = used;
  if (link_ == Link::Joined) say(out::CudaFree{this->used()});
}

void Tenant::held_by(u32 pid) {
  std::lock_guard lock(mutex_);
  holder_ = pid;
  if (link_ == Link::Joined) say(out::Holder{holder_});
}

// In exit(), perhaps of a thread that was interrupted in here.
void Tenant::fin() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && link_ == Link::Joined) say(out::Fin{});
}

// ---- the connection

// What cannot be said is over: the agent's thread sees the hang-up.
void Tenant::say(const managed::ToManager &message) {
  Writer body = managed::encode(message);
  if (!send_message(socket_.get(), managed::number_of(message), body.bytes()))
    ::shutdown(socket_.get(), SHUT_RDWR);
}

managed::Standing Tenant::standing() const {
  using managed::Standing;
  if (life_.state() == protocol::State::Suspended)
    return evicted_ ? Standing::Evicted : Standing::Parked;
  if (context_) return Standing::Running;
  return gpu_.empty() || (place_ && further_ == 0) ? Standing::New : Standing::Assigned;
}

// All that the Manager has to know, and then what it was asked before.
void Tenant::join() {
  using std::chrono::duration_cast;
  u64 age = static_cast<u64>(duration_cast<milliseconds>(Clock::now() - born_).count());
  std::string name(
      std::string_view(program_invocation_short_name).substr(0, managed::kMaxNameBytes));
  if (managed(Api::kOpenCl)) say(out::Uses{apis_});
  say(out::Join{managed::kVersion, static_cast<u32>(::getpid()), name, priority(), standing(), gpu_,
                used(), variables_, kept_, on_disk_, exclusive_, age, context_cost_.has_value(),
                context_cost_.value_or(0)});
  if (holder_ != 0) say(out::Holder{holder_});
  if (place_) say_where_from();
  for (auto &[ticket, r] : requests_)
    if (r.fate == Fate::Waits) say(out::CudaMalloc{ticket, r.bytes});
}

void Tenant::seek() {
  Result<OwnFd> socket = OwnFd::make([] { return connect_unix(manager_socket()); });
  std::lock_guard lock(mutex_);
  next_try_ = Clock::now() + (link_ == Link::Alone ? kAlonePause : kSeekPause);
  if (!socket) {
    if (link_ != Link::Seeking || Clock::now() < lost_at_ + grace_) return;
    log::warn("no Manager: {}; the program goes on without", socket.error().what);
    return be_alone();
  }
  ::setsockopt(socket->get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  (void)set_receive_timeout(socket->get(), kMessageTimeout);
  socket_ = std::move(*socket);
  if (link_ == Link::Alone) log::warn("there is a Manager again");
  link_ = Link::Joined;
  join();
}

void Tenant::lost(const std::string &why) {
  log::info("the Manager is gone ({}); waiting {} ms for another", why, grace_.count());
  socket_.close();
  link_ = Link::Seeking;
  signalled_ = false;
  lost_at_ = next_try_ = Clock::now();
}

void Tenant::settle(Request &r, Fate fate, std::string why) {
  r.fate = fate;
  r.why = std::move(why);
  changed_.notify_all();
}

void Tenant::be_alone() {
  link_ = Link::Alone;
  if (place_) settle(*place_, Fate::Granted);
  for (auto &[ticket, r] : requests_)
    if (r.fate == Fate::Waits) settle(r, Fate::Granted);
}

// ---- the agent's thread

int Tenant::timeout() {
  std::lock_guard lock(mutex_);
  Clock::time_point next = Clock::time_point::max();
  if (link_ == Link::Seeking || link_ == Link::Alone) next = next_try_;
  if (check_again_ != Clock::time_point{}) next = std::min(next, check_again_);
  if (next == Clock::time_point::max()) return -1;
  auto left = std::chrono::ceil<milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<i64>(left, 0, kAlonePause.count()));
}

void Tenant::turn(bool readable) {
  if (readable) return read_one();
  Clock::time_point now = Clock::now();
  std::unique_lock lock(mutex_);
  if ((link_ == Link::Seeking || link_ == Link::Alone) && now >= next_try_) {
    lock.unlock();
    seek();
    lock.lock();
    if (link_ != Link::Alone || !evicted_) return;
    lock.unlock();
    return come_back_alone();
  }
  if (check_again_ == Clock::time_point{} || now < check_again_) return;
  check_again_ = {};
  if (link_ == Link::Joined) say(out::ContextCheck{});
}

void Tenant::pause() {
  std::lock_guard lock(mutex_);
  if (link_ != Link::Joined) return;
  socket_.close();
  link_ = Link::Seeking;
}

// A tool that has suspended a program, or resumed one, has the last word.
void Tenant::go_on() {
  std::lock_guard lock(mutex_);
  if (life_.state() != protocol::State::Suspended) {
    evicted_ = false;
    std::string place = gpu_.empty() ? "" : life_.place();
    if (!place.empty() && plain_uuid(place) != plain_uuid(gpu_)) gpu_ = place;
  }
  if (link_ == Link::Seeking) lost_at_ = next_try_ = Clock::now();
}

void Tenant::read_one() {
  Result<std::optional<Message>> m = receive_message(socket_.get(), managed::kMaxStatusBytes);
  Result<managed::ToProgram> message;
  if (m && *m) message = managed::decode_to_program((*m)->type, (*m)->body);
  if (!m || !*m || !message) {
    std::lock_guard lock(mutex_);
    return lost(!m ? m.error().what : !*m ? "it hung up" : message.error().what);
  }
  hear(*message);
}

}  // namespace ckpt
