// SPDX-License-Identifier: Apache-2.0
//
// The calls of the program's threads, and the connection. What the Manager orders is in
// eviction.cc.
#include "agent/tenant.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "agent/channel.h"
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

// FNV-1a, of the program's path and its arguments.
u64 kind_of_program() {
  u64 hash = 0xcbf29ce484222325;
  auto add = [&hash](std::string_view text) {
    for (char c : text) hash = (hash ^ static_cast<u8>(c)) * 0x100000001b3;
  };
  char exe[4096];
  ssize_t n = ::readlink("/proc/self/exe", exe, sizeof exe);
  if (n > 0) add({exe, static_cast<size_t>(n)});
  std::ifstream in("/proc/self/cmdline");
  add(std::string(std::istreambuf_iterator<char>(in), {}));
  return hash;
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

Tenant::Place Tenant::connect(u64 variables, bool exclusive) {
  std::unique_lock lock(mutex_);
  variables_ = variables;
  exclusive_ = exclusive;
  if (link_ == Link::Off || link_ == Link::Alone) return {};
  place_.emplace();
  if (link_ == Link::Joined) say(out::Connect{variables_, exclusive_});
  changed_.wait(lock, [&] { return place_->fate != Fate::Waits; });
  Request answer = *std::exchange(place_, std::nullopt);
  return {answer.fate == Fate::Granted ? gpu_ : "", answer.why};
}

void Tenant::ready() {
  std::lock_guard lock(mutex_);
  ready_ = true;
  answer_signal();
}

void Tenant::context_made() {
  std::lock_guard lock(mutex_);
  if (std::exchange(context_, true)) return;
  if (link_ == Link::Joined) say(out::ContextCheck{});
}

Result<u32> Tenant::ask(u64 bytes) {
  std::unique_lock lock(mutex_);
  u32 ticket = next_ticket_++;
  Request &r = requests_[ticket];
  r.bytes = bytes;
  if (link_ == Link::Off || link_ == Link::Alone) r.fate = Fate::Granted;
  if (link_ == Link::Joined) say(out::CudaMalloc{ticket, bytes});
  changed_.wait(lock, [&] { return r.fate != Fate::Waits; });
  if (r.fate == Fate::Granted) return ticket;
  std::string why = std::move(r.why);
  requests_.erase(ticket);
  return fail("{}", why);
}

void Tenant::done(u32 ticket, u64 used) {
  std::lock_guard lock(mutex_);
  requests_.erase(ticket);
  used_ = used;
  if (link_ == Link::Joined) say(out::MallocDone{ticket, used});
}

void Tenant::freed(u64 used) {
  std::lock_guard lock(mutex_);
  used_ = used;
  if (link_ == Link::Joined) say(out::CudaFree{used});
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
  return gpu_.empty() || place_ ? Standing::New : Standing::Assigned;
}

// All that the Manager has to know, and then what it was asked before.
void Tenant::join() {
  using std::chrono::duration_cast;
  u64 age = static_cast<u64>(duration_cast<milliseconds>(Clock::now() - born_).count());
  std::string name(
      std::string_view(program_invocation_short_name).substr(0, managed::kMaxNameBytes));
  say(out::Join{managed::kVersion, static_cast<u32>(::getpid()), name, priority(), standing(), gpu_,
                used_, variables_, kept_, on_disk_, exclusive_, age, context_cost_.has_value(),
                context_cost_.value_or(0)});
  say(out::Kind{kind_of_program()});
  if (place_) say(out::Connect{variables_, exclusive_});
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
  report_every_ = milliseconds(0);
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
  if (link_ == Link::Joined && reports()) next = std::min(next, next_report_);
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
  if (link_ == Link::Joined && reports() && now >= next_report_) report();
  if (check_again_ == Clock::time_point{} || now < check_again_) return;
  check_again_ = {};
  if (link_ == Link::Joined) say(out::ContextCheck{});
}

// What is evicted makes no progress.
bool Tenant::reports() const { return report_every_.count() > 0 && context_ && !evicted_; }

void Tenant::report() {
  next_report_ = Clock::now() + report_every_;
  Participant::Calls c = life_.calls();
  calls_ += static_cast<u32>(c.count - std::exchange(counted_, c.count));
  if (c.last == 0) return;
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  i64 idle = (t.tv_sec * 1'000'000'000 + t.tv_nsec - c.last) / 1000;
  say(out::Progress{calls_, static_cast<u32>(std::clamp<i64>(idle, 0, ~u32{0}))});
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
  if (life_.state() != protocol::State::Suspended) evicted_ = false;
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
