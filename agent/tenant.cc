// SPDX-License-Identifier: Apache-2.0
//
// The calls of the program's threads, and the connection. What was given ahead is in
// tenant_ahead.cc, what the Manager says in tenant_hears.cc, and what it takes to obey in
// eviction.cc.
#include "agent/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "agent/channel.h"
#include "common/fnv.h"
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
// A Manager that is silent for less than that may just be slow.
constexpr milliseconds kLeastPatience{3'000};
constexpr milliseconds kUsualPatience{10'000};  // until it has told its grace

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
  Result<OwnFd> in = OwnFd::make([]() -> Result<UniqueFd> {
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
Tenant::Tenant(Lifecycle &life)
    : life_(life),
      link_(manager_socket().empty() ? Link::Off : Link::Seeking),
      alone_(link_ == Link::Off) {}

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
  if (alone_) return {};
  bool known = before == api || (before == 0 && api == Api::kCuda);
  if (link_ == Link::Joined && !known) say(out::Uses{apis_});
  return wait_for_place(lock);
}

// The program is not evicted until this API is started, too (ready()): it would be left behind.
Tenant::Place Tenant::connect_further(std::unique_lock<std::mutex> &lock, Api api) {
  ready_ = false;
  while (!is_here()) changed_.wait_for(lock, kSeekPause);
  if (!managed(api) && !alone_) {
    further_ = api;
    Place place = wait_for_place(lock);
    further_ = 0;
    if (!place.denied.empty()) return place;
    while (!is_here()) changed_.wait_for(lock, kSeekPause);
  }
  return managed(api) ? Place{gpu_, {}, false} : Place{{}, {}, true};
}

// On the device that gpu_ names, and not about to leave it. On its way out it is Running until the
// gates are shut, and on its way in before gpu_ is the new one.
bool Tenant::is_here() const {
  return !leaving_ && !evicted_ && life_.state() == protocol::State::Running;
}

Tenant::Place Tenant::wait_for_place(std::unique_lock<std::mutex> &lock) {
  place_.emplace();
  if (link_ == Link::Joined) say_where_from();
  wait(lock, [&] { return place_->fate != Fate::Waits; });
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

Result<u32> Tenant::ask(u64 bytes, Api api) { return ask(Request{.bytes = bytes, .api = api}); }

Result<u32> Tenant::ask_to_load(u64 bytes, bool exclusive) {
  return ask(Request{.bytes = bytes, .load = true, .alone = exclusive});
}

Result<u32> Tenant::ask(Request request) {
  std::unique_lock lock(mutex_);
  u32 ticket = next_ticket_++;
  Request &r = requests_[ticket] = std::move(request);
  if (managed(r.api) && take_ahead(r)) return ticket;
  if (alone_ || !managed(r.api)) settle(r, Fate::Granted);
  if (link_ == Link::Joined && r.fate == Fate::Waits) say_request(ticket, r);
  wait(lock, [&] { return r.fate != Fate::Waits; });
  if (r.fate == Fate::Granted) return ticket;
  std::string why = std::move(r.why);
  requests_.erase(ticket);
  return fail("{}", why);
}

void Tenant::say_request(u32 ticket, const Request &r) {
  if (r.load)
    say(out::Load{ticket, r.bytes, r.alone});
  else
    say(out::CudaMalloc{ticket, r.bytes});
}

void Tenant::done_loading(u32 ticket, u64 used, u64 variables, bool exclusive) {
  std::lock_guard lock(mutex_);
  requests_.erase(ticket);
  if (!managed(Api::kCuda)) return;
  used_by_[Api::kCuda] = used;
  told_ = this->used();
  variables_ = variables;
  note_peak();
  exclusive_ = exclusive;
  if (link_ == Link::Joined) say(out::LoadDone{ticket, this->used(), variables, exclusive});
}

void Tenant::held_by(u32 pid) {
  std::lock_guard lock(mutex_);
  holder_ = pid;
  if (link_ == Link::Joined) say(out::Holder{holder_});
}

// In exit(), perhaps of a thread that was interrupted in here.
void Tenant::fin() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && link_ == Link::Joined) say(out::Fin{peak_});
}

// ---- waiting

bool Tenant::waits() const {
  auto open = [](const auto &r) { return r.second.fate == Fate::Waits; };
  return evicted_ || place_ || std::ranges::any_of(requests_, open);
}

milliseconds Tenant::patience() const {
  return grace_ ? std::max(*grace_, kLeastPatience) : kUsualPatience;
}

// Whoever waits looks after the Manager itself: the agent's thread sleeps, or suspends the program.
template <class Settled>
void Tenant::wait(std::unique_lock<std::mutex> &lock, Settled settled) {
  while (!changed_.wait_for(lock, Liveness::beat(patience()), settled)) watch();
  if (!waits()) liveness_.rest();
}

// What has come and was not read yet is a sign of life, too. The agent's thread sees the hang-up.
void Tenant::watch() {
  bool connected = link_ == Link::Joined || link_ == Link::Greeting;
  if (!connected || alone_ || !waits()) return liveness_.rest();
  pollfd unread{socket_.get(), POLLIN, 0};
  if (::poll(&unread, 1, 0) > 0) liveness_.heard();
  switch (liveness_.turn(Clock::now(), patience())) {
    case Liveness::Do::Nothing: return;
    case Liveness::Do::Ask: return say(out::Ping{});
    case Liveness::Do::GiveUp: silent_ = true; ::shutdown(socket_.get(), SHUT_RDWR);
  }
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

// All that the Manager has to know.
out::Join Tenant::introduction() const {
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
void Tenant::greet() {
  link_ = Link::Greeting;
  report_every_ = milliseconds(0);
  joined_ = introduction();
  told_ = used();
  if (managed(Api::kOpenCl)) say(out::Uses{apis_});
  say(joined_);
}

// What has changed since it was greeted, which may be long ago, and what is waited for.
void Tenant::be_welcome(const managed::to_program::Welcome &m) {
  grace_ = milliseconds(m.grace_ms);
  if (std::exchange(link_, Link::Joined) == Link::Joined) return;
  if (std::exchange(alone_, false)) log::warn("there is a Manager again");
  out::Join now = introduction();
  now.age_ms = joined_.age_ms;
  if (managed(Api::kOpenCl)) say(out::Uses{apis_});
  if (now != joined_) say(now);
  if (!kind_) kind_ = kind_of_program();
  say(out::Kind{*kind_});
  told_ = used();
  if (holder_ != 0) say(out::Holder{holder_});
  if (place_) say_where_from();
  for (auto &[ticket, r] : requests_)
    if (r.fate == Fate::Waits) say_request(ticket, r);
}

void Tenant::seek() {
  bool full = false;
  Result<OwnFd> socket = OwnFd::make([&]() -> Result<UniqueFd> {
    CKPT_TRY(std::optional<UniqueFd> fd, connect_unix_at_once(manager_socket()));
    full = !fd;
    if (full) return fail("it does not take any more connections");
    return std::move(*fd);
  });
  std::lock_guard lock(mutex_);
  next_try_ = Clock::now() + (alone_ ? kAlonePause : kSeekPause);
  if (!socket) {
    milliseconds most = full ? patience() : grace_.value_or(milliseconds(0));
    if (alone_ || Clock::now() < lost_at_ + most) return;
    log::warn("no Manager: {}; the program goes on without", socket.error().what);
    return be_alone();
  }
  ::setsockopt(socket->get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  (void)set_receive_timeout(socket->get(), kMessageTimeout);
  socket_ = std::move(*socket);
  greet();
}

void Tenant::lost(const std::string &why) {
  bool joined = link_ == Link::Joined, silent = std::exchange(silent_, false);
  socket_.close();
  link_ = Link::Seeking;
  drop_ahead();
  signalled_ = false;
  liveness_.rest();
  next_try_ = Clock::now() + (alone_ ? kAlonePause : milliseconds(0));
  if (alone_) return;
  if (silent) {
    log::warn("the Manager has not answered for {} s; the program goes on without",
              std::chrono::ceil<std::chrono::seconds>(patience()).count());
    return be_alone();
  }
  log::info("the Manager is gone ({}); waiting {} ms for another", why,
            grace_.value_or(milliseconds(0)).count());
  if (joined) lost_at_ = next_try_;
}

void Tenant::settle(Request &r, Fate fate, std::string why) {
  r.fate = fate;
  r.why = std::move(why);
  // From now on, whatever becomes of the connection.
  if (r.alone && fate == Fate::Granted) exclusive_ = true;
  changed_.notify_all();
}

void Tenant::be_alone() {
  alone_ = true;
  if (place_) settle(*place_, Fate::Granted);
  for (auto &[ticket, r] : requests_)
    if (r.fate == Fate::Waits) settle(r, Fate::Granted);
}

// ---- the agent's thread

int Tenant::timeout() {
  std::lock_guard lock(mutex_);
  Clock::time_point next = Clock::time_point::max();
  if (link_ == Link::Seeking) next = next_try_;
  if (check_again_ != Clock::time_point{}) next = std::min(next, check_again_);
  if (link_ == Link::Joined && reports()) next = std::min(next, next_report_);
  if (evicted_ && alone_) next = std::min(next, next_return_);
  if (evicted_ && !alone_ && link_ != Link::Seeking)
    next = std::min(next, liveness_.next().value_or(Clock::now()));
  if (next == Clock::time_point::max()) return -1;
  auto left = std::chrono::ceil<milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<i64>(left, 0, kAlonePause.count()));
}

void Tenant::turn(bool readable) {
  if (readable) return read_one();
  Clock::time_point now = Clock::now();
  std::unique_lock lock(mutex_);
  watch();
  bool seeks = link_ == Link::Seeking && now >= next_try_;
  bool returns = alone_ && evicted_ && now >= next_return_;
  if (check_again_ != Clock::time_point{} && now >= check_again_) {
    check_again_ = {};
    if (link_ == Link::Joined) say(out::ContextCheck{});
  }
  if (link_ == Link::Joined && reports() && now >= next_report_) report();
  lock.unlock();
  if (seeks) seek();
  if (returns) come_back_alone();
}

void Tenant::pause() {
  std::lock_guard lock(mutex_);
  if (link_ != Link::Joined && link_ != Link::Greeting) return;
  socket_.close();
  link_ = Link::Seeking;
  drop_ahead();
  silent_ = false;
  liveness_.rest();
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

}  // namespace ckpt
