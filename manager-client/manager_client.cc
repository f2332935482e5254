// SPDX-License-Identifier: Apache-2.0
//
// The calls of the program's threads. The connection is in connection.cc, what was given ahead in
// credit.cc, what the Manager says in messages.cc, and what it takes to obey in
// eviction.cc.
#include "manager-client/manager_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "common/base/gpu.h"

namespace ckpt::manager_client {

namespace out = managed::to_manager;
using std::chrono::milliseconds;

namespace {

// A Manager that is silent for less than that may just be slow.
constexpr milliseconds kLeastPatience{3'000};
constexpr milliseconds kUsualPatience{10'000};  // until it has told its grace

}  // namespace

// ---- the program's threads

ManagerClient::Place ManagerClient::connect(u64 variables, bool exclusive, Api api) {
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
ManagerClient::Place ManagerClient::connect_first(std::unique_lock<std::mutex> &lock, Api api) {
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
ManagerClient::Place ManagerClient::connect_further(std::unique_lock<std::mutex> &lock, Api api) {
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
bool ManagerClient::is_here() const {
  return !leaving_ && !evicted_ && life_.state() == protocol::State::Running;
}

ManagerClient::Place ManagerClient::wait_for_place(std::unique_lock<std::mutex> &lock) {
  place_.emplace();
  if (link_ == Link::Joined) say_where_from();
  wait(lock, [&] { return place_->fate != Fate::Waits; });
  Request answer = *std::exchange(place_, std::nullopt);
  bool granted = answer.fate == Fate::Granted;
  return {granted ? gpu_ : "", answer.why, granted && gpu_.empty() && link_ == Link::Joined};
}

void ManagerClient::say_where_from() {
  if (further_ != 0) return say(out::AddApi{further_});
  say(out::Connect{variables_, exclusive_});
}

void ManagerClient::ready() {
  std::lock_guard lock(mutex_);
  ready_ = true;
  answer_signal();
}

void ManagerClient::context_made(Api api) {
  std::lock_guard lock(mutex_);
  if (!managed(api) || std::exchange(context_, true)) return;
  if (link_ == Link::Joined) say(out::ContextCheck{});
}

Result<u32> ManagerClient::ask(u64 bytes, Api api) {
  return ask(Request{.bytes = bytes, .api = api});
}

Result<u32> ManagerClient::ask_to_load(u64 bytes, bool exclusive) {
  return ask(Request{.bytes = bytes, .load = true, .alone = exclusive});
}

Result<u32> ManagerClient::ask(Request request) {
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

void ManagerClient::say_request(u32 ticket, const Request &r) {
  if (r.load)
    say(out::Load{ticket, r.bytes, r.alone});
  else
    say(out::CudaMalloc{ticket, r.bytes});
}

void ManagerClient::done_loading(u32 ticket, u64 used, u64 variables, bool exclusive) {
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

void ManagerClient::held_by(u32 pid) {
  std::lock_guard lock(mutex_);
  holder_ = pid;
  if (link_ == Link::Joined) say(out::Holder{holder_});
}

// In exit(), perhaps of a thread that was interrupted in here.
void ManagerClient::fin() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && link_ == Link::Joined) say(out::Fin{peak_});
}

// ---- waiting

bool ManagerClient::waits() const {
  auto open = [](const auto &r) { return r.second.fate == Fate::Waits; };
  return evicted_ || place_ || std::ranges::any_of(requests_, open);
}

milliseconds ManagerClient::patience() const {
  return grace_ ? std::max(*grace_, kLeastPatience) : kUsualPatience;
}

// Whoever waits looks after the Manager itself: the agent's thread sleeps, or suspends the program.
template <class Settled>
void ManagerClient::wait(std::unique_lock<std::mutex> &lock, Settled settled) {
  while (!changed_.wait_for(lock, Heartbeat::beat(patience()), settled)) watch();
  if (!waits()) liveness_.rest();
}

// What has come and was not read yet is a sign of life, too. The agent's thread sees the hang-up.
void ManagerClient::watch() {
  bool connected = link_ == Link::Joined || link_ == Link::Greeting;
  if (!connected || alone_ || !waits()) return liveness_.rest();
  pollfd unread{socket_.get(), POLLIN, 0};
  if (::poll(&unread, 1, 0) > 0) liveness_.heard();
  switch (liveness_.turn(Clock::now(), patience())) {
    case Heartbeat::Do::Nothing: return;
    case Heartbeat::Do::Ask: return say(out::Ping{});
    case Heartbeat::Do::GiveUp: silent_ = true; ::shutdown(socket_.get(), SHUT_RDWR);
  }
}

// ---- the agent's thread

int ManagerClient::timeout() {
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

void ManagerClient::turn(bool readable) {
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

void ManagerClient::pause() {
  std::lock_guard lock(mutex_);
  if (link_ != Link::Joined && link_ != Link::Greeting) return;
  socket_.close();
  link_ = Link::Seeking;
  drop_ahead();
  silent_ = false;
  liveness_.rest();
}

// A tool that has suspended a program, or resumed one, has the last word.
void ManagerClient::go_on() {
  std::lock_guard lock(mutex_);
  if (life_.state() != protocol::State::Suspended) {
    evicted_ = false;
    std::string place = gpu_.empty() ? "" : life_.place();
    if (!place.empty() && plain_uuid(place) != plain_uuid(gpu_)) gpu_ = place;
  }
  if (link_ == Link::Seeking) lost_at_ = next_try_ = Clock::now();
}

}  // namespace ckpt::manager_client
