// SPDX-License-Identifier: Apache-2.0
#include "manager-client/manager_client.h"

#include <algorithm>

#include "common/base/gpu.h"

namespace ckpt::manager_client {

namespace out = managed::to_manager;
using std::chrono::milliseconds;

ManagerClient::ManagerClient(agent::Lifecycle &lifecycle, std::string socket_path)
    : state_(lifecycle, std::move(socket_path)) {}

// ---- the program's threads

Place ManagerClient::connect(u64 variables, bool exclusive, Api api) {
  std::lock_guard one_at_a_time(connecting_);
  std::unique_lock lock(state_.mutex);
  return state_.claims.assignment.connect(lock, variables, exclusive, api);
}

void ManagerClient::ready() {
  std::lock_guard lock(state_.mutex);
  state_.eviction.set_ready(true);
  orders_.answer_signal();
}

void ManagerClient::context_made(Api api) {
  std::lock_guard lock(state_.mutex);
  Program &program = state_.program;
  if (!program.manages(api) || std::exchange(program.context.made, true)) return;
  state_.connection.tell(out::ContextCheck{});
}

Result<u32> ManagerClient::ask(u64 bytes, Api api) {
  return ask(Request{.bytes = bytes, .api = api});
}

Result<u32> ManagerClient::ask_to_load(u64 bytes, bool exclusive) {
  return ask(Request{.bytes = bytes, .load = true, .exclusive = exclusive});
}

Result<u32> ManagerClient::ask(const Request &request) {
  std::unique_lock lock(state_.mutex);
  return state_.claims.memory.ask(lock, request);
}

void ManagerClient::done(u32 ticket, u64 used, Api api) {
  std::lock_guard lock(state_.mutex);
  state_.claims.memory.done(ticket, used, api);
}

void ManagerClient::done_loading(u32 ticket, u64 used, u64 variables, bool exclusive) {
  std::lock_guard lock(state_.mutex);
  state_.claims.memory.done_loading(ticket, used, variables, exclusive);
}

void ManagerClient::freed(u64 used, Api api) {
  std::lock_guard lock(state_.mutex);
  state_.claims.memory.freed(used, api);
}

void ManagerClient::held_by(u32 pid) {
  std::lock_guard lock(state_.mutex);
  state_.program.memory_holder = pid;
  state_.connection.tell(out::Holder{pid});
}

// try_to_lock: exit() may run in a signal handler of a thread that holds the lock.
void ManagerClient::exiting() {
  std::unique_lock lock(state_.mutex, std::try_to_lock);
  if (lock) state_.connection.tell(out::Fin{state_.program.memory.peak()});
}

// ---- the agent's thread

int ManagerClient::timeout() {
  std::lock_guard lock(state_.mutex);
  Clock::time_point next =
      std::min({state_.connection.next_attempt(), state_.program.context.ask_again,
                dialogue_.next_report(), next_while_evicted()});
  if (next == Connection::kNever) return -1;
  auto left = std::chrono::ceil<milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<i64>(left, 0, Connection::kStandaloneRetryPause.count()));
}

Clock::time_point ManagerClient::next_while_evicted() const {
  const Connection &connection = state_.connection;
  if (!state_.eviction.evicted()) return Connection::kNever;
  if (connection.standalone()) return state_.eviction.next_attempt();
  if (connection.seeking()) return Connection::kNever;
  return connection.next_heartbeat().value_or(Clock::now());
}

void ManagerClient::dispatch(bool readable) {
  if (readable) return dialogue_.receive();
  Clock::time_point now = Clock::now();
  std::unique_lock lock(state_.mutex);
  Connection &connection = state_.connection;
  const Eviction &eviction = state_.eviction;
  connection.watch(state_.waiters.something_waits());
  bool seeks = now >= connection.next_attempt();
  bool resumes = connection.standalone() && eviction.evicted() && now >= eviction.next_attempt();
  if (ContextCheck &context = state_.program.context; now >= context.ask_again) {
    context.ask_again = ContextCheck::kNever;
    connection.tell(out::ContextCheck{});
  }
  dialogue_.report_if_due(now);
  lock.unlock();
  if (seeks) dialogue_.seek();
  if (resumes) orders_.resume_standalone();
}

void ManagerClient::pause() {
  std::lock_guard lock(state_.mutex);
  if (state_.connection.pause()) state_.claims.memory.drop_credit();
}

// The tool may have suspended or resumed the program, perhaps on another GPU.
void ManagerClient::resume() {
  std::lock_guard lock(state_.mutex);
  if (state_.lifecycle.state() != protocol::State::Suspended) {
    state_.eviction.taken_over();
    std::string &ours = state_.program.gpu;
    std::string gpu = ours.empty() ? "" : state_.lifecycle.place();
    if (!gpu.empty() && plain_uuid(gpu) != plain_uuid(ours)) ours = gpu;
  }
  state_.connection.resume();
}

}  // namespace ckpt::manager_client
