// SPDX-License-Identifier: Apache-2.0
//
// What the Manager says, and what it is told again and again: the program's progress. On the
// agent's thread.
#include <time.h>

#include <algorithm>

#include "common/base/log.h"
#include "common/ipc/unix_socket.h"
#include "manager-client/manager_client.h"

namespace ckpt::manager_client {

namespace in = managed::to_program;
namespace out = managed::to_manager;
using std::chrono::milliseconds;

namespace {

// Until the driver shows a context that was just made.
constexpr milliseconds kCheckPause{50};

}  // namespace

void ManagerClient::read_one() {
  Result<std::optional<Message>> m = receive_message(socket_.get(), managed::kMaxStatusBytes);
  Result<managed::ToProgram> message;
  if (m && *m) message = managed::decode_to_program((*m)->type, (*m)->body);
  if (!m || !*m || !message) {
    std::lock_guard lock(mutex_);
    return lost(!m ? m.error().what : !*m ? "it hung up" : message.error().what);
  }
  {
    std::lock_guard lock(mutex_);
    liveness_.heard();
  }
  std::visit([this](const auto &m) { hear(m); }, *message);
}

// ---- about the connection

void ManagerClient::hear(const in::Welcome &m) {
  std::lock_guard lock(mutex_);
  be_welcome(m);
}

void ManagerClient::hear(const in::Refused &m) {
  log::error(Error{"the Manager refuses this program: " + m.what, m.hint});
  std::lock_guard lock(mutex_);
  be_alone();
  socket_.close();
  link_ = Link::Off;
  drop_ahead();
}

// ---- answers

void ManagerClient::hear(const in::Connect &m) {
  std::lock_guard lock(mutex_);
  if (!place_ || further_ != 0) return;
  gpu_ = m.gpu;
  settle(*place_, Fate::Granted);
}

void ManagerClient::hear(const in::ApiAdded &m) {
  std::lock_guard lock(mutex_);
  if (!place_ || further_ == 0) return;
  if (m.managed) apis_ |= further_;
  settle(*place_, Fate::Granted);
}

void ManagerClient::hear(const in::GoAhead &m) {
  std::lock_guard lock(mutex_);
  auto r = requests_.find(m.ticket);
  if (r != requests_.end()) settle(r->second, Fate::Granted);
}

void ManagerClient::hear(const in::OutOfMemory &m) {
  std::lock_guard lock(mutex_);
  auto r = requests_.find(m.ticket);
  if (r != requests_.end()) settle(r->second, Fate::Denied, m.why);
  if (m.ticket == 0 && place_) settle(*place_, Fate::Denied, m.why);
}

void ManagerClient::hear(const in::CCheckOk &m) {
  std::lock_guard lock(mutex_);
  context_seen_ = true;
  if (m.known) context_cost_ = m.context;
}

void ManagerClient::hear(const in::CCheckFailed &) {
  std::lock_guard lock(mutex_);
  check_again_ = Clock::now() + kCheckPause;
}

// ---- wishes

void ManagerClient::hear(const in::Credit &m) {
  std::lock_guard lock(mutex_);
  ahead_ = left_ = m.bytes;
}

// What was given back already may have been given anew behind this.
void ManagerClient::hear(const in::RevokeCredit &) {
  std::lock_guard lock(mutex_);
  if (ahead_ == 0) return;
  ahead_ = left_ = 0;
  recalled_ = true;
  if (taking_ == 0) give_back();
}

void ManagerClient::hear(const in::Signal &) {
  std::lock_guard lock(mutex_);
  signalled_ = true;
  answer_signal();
}

// Not while the driver is being started: what has not joined the agent cannot be suspended.
void ManagerClient::answer_signal() {
  if (ready_ && link_ == Link::Joined && std::exchange(signalled_, false)) say(out::Query{});
}

// ---- progress

void ManagerClient::hear(const in::ReportProgress &m) {
  std::lock_guard lock(mutex_);
  report_every_ = milliseconds(m.interval_ms);
  next_report_ = Clock::now();
  (void)life_.calls();  // which are noted from now on
}

// What is evicted makes no progress.
bool ManagerClient::reports() const { return report_every_.count() > 0 && context_ && !evicted_; }

void ManagerClient::report() {
  next_report_ = Clock::now() + report_every_;
  agent::Participant::Calls c = life_.calls();
  calls_ += static_cast<u32>(c.count - std::exchange(counted_, c.count));
  if (c.last == 0) return;
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  i64 idle = (t.tv_sec * 1'000'000'000 + t.tv_nsec - c.last) / 1000;
  say(out::Progress{calls_, static_cast<u32>(std::clamp<i64>(idle, 0, ~u32{0})), c.copied});
}

}  // namespace ckpt::manager_client
