// SPDX-License-Identifier: Apache-2.0
#include "manager-client/dialogue.h"

#include <errno.h>
#include <unistd.h>

#include "common/base/log.h"

namespace ckpt::manager_client {

namespace in = managed::to_program;
namespace out = managed::to_manager;
using std::chrono::milliseconds;

namespace {

// Until the driver shows a context that was just created.
constexpr milliseconds kCheckPause{50};

}  // namespace

// ---- the connection

void Dialogue::seek() {
  Connection::Attempt attempt = state_.connection.attempt();
  std::lock_guard lock(state_.mutex);
  switch (state_.connection.adopt(std::move(attempt))) {
    case Connection::Outcome::Retry: return;
    case Connection::Outcome::GaveUp: return state_.claims.grant_all();
    case Connection::Outcome::Connected: progress_.stop(); introduce();
  }
}

void Dialogue::receive() {
  Result<managed::ToProgram> message = state_.connection.receive();
  {
    std::lock_guard lock(state_.mutex);
    if (!message) return lost(message.error().what);
    state_.connection.heard();
  }
  std::visit([this](const auto &m) { on(m); }, *message);
}

void Dialogue::lost(const std::string &why) {
  bool standalone = state_.connection.lost(why);
  state_.claims.memory.drop_credit();
  state_.eviction.forget_signal();
  if (standalone) state_.claims.grant_all();
}

void Dialogue::introduce() {
  told_ = introduction();
  state_.claims.memory.note_told();
  if (state_.program.manages(managed::kOpenCl))
    state_.connection.send(out::Uses{state_.program.apis});
  state_.connection.send(told_);
}

// A new Manager knows nothing else of the program.
out::Join Dialogue::introduction() const {
  using std::chrono::duration_cast;
  const Program &program = state_.program;
  auto age = duration_cast<milliseconds>(Clock::now() - program.started);
  std::string_view name(program_invocation_short_name);
  return {managed::kVersion,
          static_cast<u32>(::getpid()),
          std::string(name.substr(0, managed::kMaxNameBytes)),
          priority(),
          standing(),
          program.gpu,
          program.memory.used(),
          program.memory.variables,
          state_.eviction.kept(),
          state_.eviction.on_disk(),
          program.exclusive,
          static_cast<u64>(age.count()),
          program.context.cost.has_value(),
          program.context.cost.value_or(0)};
}

managed::Standing Dialogue::standing() const {
  using managed::Standing;
  if (state_.lifecycle.state() == protocol::State::Suspended)
    return state_.eviction.evicted() ? Standing::Evicted : Standing::Suspended;
  if (state_.program.context.made) return Standing::Running;
  bool unassigned = state_.program.gpu.empty() || state_.claims.assignment.asks_for_first();
  return unassigned ? Standing::Unassigned : Standing::Assigned;
}

// The Manager may welcome the program long after the Join. The program then reports what has
// changed meanwhile, and its waiting requests.
void Dialogue::on(const in::Welcome &m) {
  std::lock_guard lock(state_.mutex);
  if (!state_.connection.welcome(milliseconds(m.reconnect_ms))) return;
  Program &program = state_.program;
  out::Join before = told_;
  out::Join now = introduction();
  now.age_ms = before.age_ms;
  state_.connection.send(out::Uses{program.apis | managed::kKnowsDepths});
  if (now != before) state_.connection.send(now);
  orders_.introduce_what_stays();
  if (!program.workload) program.workload = workload_hash();
  state_.connection.send(out::Workload{*program.workload});
  state_.claims.memory.note_told();
  if (program.memory_holder != 0) state_.connection.send(out::Holder{program.memory_holder});
  state_.claims.ask_again();
}

void Dialogue::on(const in::Refused &m) {
  log::error(Error{"the Manager refuses this program: " + m.what, m.hint});
  std::lock_guard lock(state_.mutex);
  orders_.leave();
}

// ---- answers

void Dialogue::on(const in::Connect &m) {
  std::lock_guard lock(state_.mutex);
  state_.claims.assignment.assign(m.gpu);
}

void Dialogue::on(const in::ApiAdded &m) {
  std::lock_guard lock(state_.mutex);
  state_.claims.assignment.add_api(m.managed);
}

void Dialogue::on(const in::GoAhead &m) {
  std::lock_guard lock(state_.mutex);
  state_.claims.memory.settle(m.ticket, Answer::Fate::Granted);
}

void Dialogue::on(const in::OutOfMemory &m) {
  std::lock_guard lock(state_.mutex);
  state_.claims.deny(m.ticket, m.why);
}

void Dialogue::on(const in::CCheckOk &m) {
  std::lock_guard lock(state_.mutex);
  if (m.known) state_.program.context.cost = m.context;
}

void Dialogue::on(const in::CCheckFailed &) {
  std::lock_guard lock(state_.mutex);
  state_.program.context.ask_again = Clock::now() + kCheckPause;
}

// ---- orders

void Dialogue::on(const in::Credit &m) {
  std::lock_guard lock(state_.mutex);
  state_.claims.memory.grant_credit(m.bytes);
}

void Dialogue::on(const in::RevokeCredit &) {
  std::lock_guard lock(state_.mutex);
  state_.claims.memory.revoke_credit();
}

void Dialogue::on(const in::Signal &) {
  std::lock_guard lock(state_.mutex);
  state_.eviction.signal();
  orders_.answer_signal();
}

// ---- progress

// The first question for the calls makes the participants record them.
void Dialogue::on(const in::ReportProgress &m) {
  std::lock_guard lock(state_.mutex);
  progress_.start(milliseconds(m.interval_ms));
  (void)state_.lifecycle.calls();
}

// An evicted program makes no progress.
Clock::time_point Dialogue::next_report() const {
  bool reports = state_.connection.joined() && progress_.wanted() && state_.program.context.made &&
                 !state_.eviction.evicted();
  return reports ? progress_.next() : Connection::kNever;
}

void Dialogue::report_if_due(Clock::time_point now) {
  if (now < next_report()) return;
  std::optional<out::Progress> progress =
      progress_.make(state_.lifecycle.calls(), coarse_monotonic_ns());
  if (progress) state_.connection.send(*progress);
}

}  // namespace ckpt::manager_client
