// SPDX-License-Identifier: Apache-2.0
//
// The calls of the program's threads, and the turns of the agent's thread. connect() is in
// assignment.cc, the Manager's messages are in messages.cc.
#include "manager-client/manager_client.h"

#include <time.h>

#include <algorithm>

#include "common/base/clock.h"
#include "common/base/gpu.h"

namespace ckpt::manager_client {

namespace out = managed::to_manager;
using std::chrono::milliseconds;

ManagerClient::ManagerClient(agent::Lifecycle &lifecycle, std::string socket_path)
    : lifecycle_(lifecycle), connection_(std::move(socket_path)), eviction_(lifecycle) {}

// ---- the program's threads

void ManagerClient::ready() {
  std::lock_guard lock(mutex_);
  eviction_.set_ready(true);
  answer_signal();
}

void ManagerClient::context_made(Api api) {
  std::lock_guard lock(mutex_);
  if (!program_.manages(api) || std::exchange(program_.context.made, true)) return;
  connection_.tell(out::ContextCheck{});
}

Result<u32> ManagerClient::ask(u64 bytes, Api api) {
  return ask(Request{.bytes = bytes, .api = api});
}

Result<u32> ManagerClient::ask_to_load(u64 bytes, bool exclusive) {
  return ask(Request{.bytes = bytes, .load = true, .exclusive = exclusive});
}

Result<u32> ManagerClient::ask(const Request &request) {
  std::unique_lock lock(mutex_);
  u32 ticket = requests_.add(request);
  Request &r = *requests_.find(ticket);
  bool managed = program_.manages(r.api);
  if (managed && take_credit(r)) return ticket;
  if (connection_.standalone() || !managed) settle(r, Fate::Granted);
  if (r.pending()) connection_.tell(r.message(ticket));
  wait(lock, [&r] { return !r.pending(); });
  if (r.answer.fate == Fate::Granted) return ticket;
  return fail("{}", requests_.remove(ticket)->answer.why);
}

void ManagerClient::done(u32 ticket, u64 used, Api api) {
  std::lock_guard lock(mutex_);
  std::optional<Request> request = requests_.remove(ticket);
  if (!program_.manages(api)) return;
  program_.memory.set(api, used);
  program_.memory.note_peak();
  if (request && request->from_credit) {
    if (credit_.finish(request->bytes)) return_credit();
    return;
  }
  told_used_ = program_.memory.used();
  connection_.tell(out::MallocDone{ticket, told_used_});
}

void ManagerClient::done_loading(u32 ticket, u64 used, u64 variables, bool exclusive) {
  std::lock_guard lock(mutex_);
  requests_.remove(ticket);
  if (!program_.manages(Api::kCuda)) return;
  program_.memory.set(Api::kCuda, used);
  program_.memory.variables = variables;
  program_.memory.note_peak();
  program_.exclusive = exclusive;
  told_used_ = program_.memory.used();
  connection_.tell(out::LoadDone{ticket, told_used_, variables, exclusive});
}

void ManagerClient::freed(u64 used, Api api) {
  std::lock_guard lock(mutex_);
  if (!program_.manages(api)) return;
  u64 before = program_.memory.used_by(api);
  program_.memory.set(api, used);
  if (!credit_.refill(before > used ? before - used : 0)) tell_used();
}

void ManagerClient::held_by(u32 pid) {
  std::lock_guard lock(mutex_);
  program_.memory_holder = pid;
  connection_.tell(out::Holder{pid});
}

// try_to_lock: exit() may run in a signal handler of a thread that holds the lock.
void ManagerClient::exiting() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) connection_.tell(out::Fin{program_.memory.peak()});
}

// ---- waiting

bool ManagerClient::something_waits() const {
  return eviction_.evicted() || connect_ || requests_.any_pending();
}

// A waiting thread watches the Manager itself, because the agent's thread sleeps, or suspends the
// program.
void ManagerClient::wait(std::unique_lock<std::mutex> &lock, const std::function<bool()> &settled) {
  while (!changed_.wait_for(lock, Heartbeat::beat(connection_.patience()), settled))
    connection_.watch(something_waits());
  if (!something_waits()) connection_.stop_heartbeat();
}

void ManagerClient::settle(Answer &answer, Fate fate, std::string why) {
  answer.fate = fate;
  answer.why = std::move(why);
  changed_.notify_all();
}

// A granted load makes the program exclusive at once, even if the connection breaks before it is
// done.
void ManagerClient::settle(Request &request, Fate fate, std::string why) {
  if (request.exclusive && fate == Fate::Granted) program_.exclusive = true;
  settle(request.answer, fate, std::move(why));
}

// Without a Manager no thread waits.
void ManagerClient::grant_all() {
  if (connect_) settle(connect_->answer, Fate::Granted);
  requests_.for_each([this](u32, Request &r) {
    if (r.pending()) settle(r, Fate::Granted);
  });
}

// ---- credit

// A credit that does not suffice is returned: the answer to the request may bring a new one.
bool ManagerClient::take_credit(Request &request) {
  request.from_credit = !request.load && credit_.take(request.bytes);
  if (request.from_credit)
    request.answer.fate = Fate::Granted;
  else if (credit_.returnable())
    return_credit();
  return request.from_credit;
}

void ManagerClient::return_credit() {
  credit_.returned();
  told_used_ = program_.memory.used();
  connection_.tell(out::CreditReturned{told_used_});
}

// In-flight credit allocations become ordinary granted requests.
void ManagerClient::drop_credit() {
  credit_.drop();
  requests_.for_each([this](u32 ticket, Request &r) {
    if (std::exchange(r.from_credit, false)) connection_.tell(r.message(ticket));
  });
}

void ManagerClient::tell_used() {
  told_used_ = program_.memory.used();
  connection_.tell(out::CudaFree{told_used_});
}

// ---- the agent's thread

int ManagerClient::timeout() {
  std::lock_guard lock(mutex_);
  Clock::time_point next =
      std::min({connection_.next_attempt(), program_.context.ask_again,
                reports() ? progress_.next() : Connection::kNever, next_while_evicted()});
  if (next == Connection::kNever) return -1;
  auto left = std::chrono::ceil<milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<i64>(left, 0, Connection::kStandaloneRetryPause.count()));
}

Clock::time_point ManagerClient::next_while_evicted() const {
  if (!eviction_.evicted()) return Connection::kNever;
  if (connection_.standalone()) return eviction_.next_attempt();
  if (connection_.seeking()) return Connection::kNever;
  return connection_.next_heartbeat().value_or(Clock::now());
}

void ManagerClient::dispatch(bool readable) {
  if (readable) return receive();
  Clock::time_point now = Clock::now();
  std::unique_lock lock(mutex_);
  connection_.watch(something_waits());
  bool seeks = now >= connection_.next_attempt();
  bool resumes = connection_.standalone() && eviction_.evicted() && now >= eviction_.next_attempt();
  if (now >= program_.context.ask_again) {
    program_.context.ask_again = ContextCheck::kNever;
    connection_.tell(out::ContextCheck{});
  }
  if (reports() && now >= progress_.next()) report();
  lock.unlock();
  if (seeks) seek();
  if (resumes) resume_standalone();
}

// An evicted program makes no progress.
bool ManagerClient::reports() const {
  return connection_.joined() && progress_.wanted() && program_.context.made &&
         !eviction_.evicted();
}

void ManagerClient::report() {
  std::optional<out::Progress> progress = progress_.make(lifecycle_.calls(), coarse_monotonic_ns());
  if (progress) connection_.send(*progress);
}

void ManagerClient::pause() {
  std::lock_guard lock(mutex_);
  if (connection_.pause()) drop_credit();
}

// The tool may have suspended or resumed the program, perhaps on another GPU.
void ManagerClient::resume() {
  std::lock_guard lock(mutex_);
  if (lifecycle_.state() != protocol::State::Suspended) {
    eviction_.taken_over();
    std::string gpu = program_.gpu.empty() ? "" : lifecycle_.place();
    if (!gpu.empty() && plain_uuid(gpu) != plain_uuid(program_.gpu)) program_.gpu = gpu;
  }
  connection_.resume();
}

}  // namespace ckpt::manager_client
