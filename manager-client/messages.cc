// SPDX-License-Identifier: Apache-2.0
//
// The dialogue with the Manager: the introduction, and what each of its messages does. On the
// agent's thread.
#include <errno.h>
#include <unistd.h>

#include "common/base/log.h"
#include "manager-client/manager_client.h"

namespace ckpt::manager_client {

namespace in = managed::to_program;
namespace out = managed::to_manager;
using std::chrono::milliseconds;

namespace {

// Until the driver shows a context that was just created.
constexpr milliseconds kCheckPause{50};

std::string shortened(const std::string &reason) {
  return reason.substr(0, managed::kMaxReasonBytes);
}

}  // namespace

// ---- the connection

void ManagerClient::seek() {
  Connection::Attempt attempt = connection_.attempt();
  std::lock_guard lock(mutex_);
  switch (connection_.adopt(std::move(attempt))) {
    case Connection::Outcome::Retry: return;
    case Connection::Outcome::GaveUp: return grant_all();
    case Connection::Outcome::Connected: progress_.stop(); introduce();
  }
}

void ManagerClient::receive() {
  Result<managed::ToProgram> message = connection_.receive();
  {
    std::lock_guard lock(mutex_);
    if (!message) return lost(message.error().what);
    connection_.heard();
  }
  std::visit([this](const auto &m) { on(m); }, *message);
}

void ManagerClient::lost(const std::string &why) {
  bool standalone = connection_.lost(why);
  drop_credit();
  eviction_.forget_signal();
  if (standalone) grant_all();
}

void ManagerClient::introduce() {
  told_ = introduction();
  told_used_ = program_.memory.used();
  if (program_.manages(Api::kOpenCl)) connection_.send(out::Uses{program_.apis});
  connection_.send(told_);
}

// A new Manager knows nothing else of the program.
out::Join ManagerClient::introduction() const {
  using std::chrono::duration_cast;
  auto age = duration_cast<milliseconds>(Clock::now() - program_.started);
  std::string_view name(program_invocation_short_name);
  return {managed::kVersion,
          static_cast<u32>(::getpid()),
          std::string(name.substr(0, managed::kMaxNameBytes)),
          priority(),
          standing(),
          program_.gpu,
          program_.memory.used(),
          program_.memory.variables,
          eviction_.kept(),
          eviction_.on_disk(),
          program_.exclusive,
          static_cast<u64>(age.count()),
          program_.context.cost.has_value(),
          program_.context.cost.value_or(0)};
}

managed::Standing ManagerClient::standing() const {
  using managed::Standing;
  if (lifecycle_.state() == protocol::State::Suspended)
    return eviction_.evicted() ? Standing::Evicted : Standing::Suspended;
  if (program_.context.made) return Standing::Running;
  bool asks_for_first = connect_ && connect_->further_api == 0;
  return program_.gpu.empty() || asks_for_first ? Standing::Unassigned : Standing::Assigned;
}

// The Manager may welcome the program long after the Join. The program then reports what has
// changed meanwhile, and its waiting requests.
void ManagerClient::on(const in::Welcome &m) {
  std::lock_guard lock(mutex_);
  if (!connection_.welcome(milliseconds(m.reconnect_ms))) return;
  out::Join before = told_;
  out::Join now = introduction();
  now.age_ms = before.age_ms;
  connection_.send(out::Uses{program_.apis | managed::kKnowsDepths});
  if (now != before) connection_.send(now);
  told_stays_ = false;
  tell_what_stays();
  if (!program_.workload) program_.workload = workload_hash();
  connection_.send(out::Workload{*program_.workload});
  told_used_ = program_.memory.used();
  if (program_.memory_holder != 0) connection_.send(out::Holder{program_.memory_holder});
  if (connect_) ask_for_place();
  requests_.for_each([this](u32 ticket, const Request &r) {
    if (r.pending()) connection_.send(r.message(ticket));
  });
}

void ManagerClient::on(const in::Refused &m) {
  log::error(Error{"the Manager refuses this program: " + m.what, m.hint});
  std::lock_guard lock(mutex_);
  leave();
}

// From now on the program is not managed, and nothing waits for the Manager.
void ManagerClient::leave() {
  connection_.refuse();
  grant_all();
  drop_credit();
  changed_.notify_all();
}

// Whether a program that cannot resume runs on without its devices (Lifecycle::wake). It has
// nothing to manage then, and its calls must return their errors.
bool ManagerClient::left_without_devices() {
  if (lifecycle_.state() != protocol::State::Running) return false;
  eviction_.resumed();
  leave();
  return true;
}

// ---- answers

void ManagerClient::on(const in::GoAhead &m) {
  std::lock_guard lock(mutex_);
  if (Request *r = requests_.find(m.ticket)) settle(*r, Fate::Granted);
}

void ManagerClient::on(const in::OutOfMemory &m) {
  std::lock_guard lock(mutex_);
  if (Request *r = requests_.find(m.ticket)) settle(*r, Fate::Denied, m.why);
  if (m.ticket == 0 && connect_) settle(connect_->answer, Fate::Denied, m.why);
}

void ManagerClient::on(const in::CCheckOk &m) {
  std::lock_guard lock(mutex_);
  if (m.known) program_.context.cost = m.context;
}

void ManagerClient::on(const in::CCheckFailed &) {
  std::lock_guard lock(mutex_);
  program_.context.ask_again = Clock::now() + kCheckPause;
}

// ---- orders

void ManagerClient::on(const in::Credit &m) {
  std::lock_guard lock(mutex_);
  credit_.grant(m.bytes);
}

void ManagerClient::on(const in::RevokeCredit &) {
  std::lock_guard lock(mutex_);
  if (credit_.revoke()) return_credit();
}

void ManagerClient::on(const in::Signal &) {
  std::lock_guard lock(mutex_);
  eviction_.signal();
  answer_signal();
}

// Not while an API is being started, because a suspend would leave it behind.
void ManagerClient::answer_signal() {
  if (connection_.joined() && eviction_.take_signal()) connection_.send(out::Query{});
}

void ManagerClient::on(const in::Suspend &m) {
  if (std::optional<u64> kept = evict(m.folder, protocol::Depth::Full))
    connection_.send(out::SuspendDone{*kept});
}

void ManagerClient::on(const in::SuspendMemory &m) {
  std::optional<u64> kept = evict(m.folder, protocol::Depth::Memory);
  if (!kept) return;
  std::lock_guard lock(mutex_);
  told_stays_ = eviction_.stays();
  connection_.send(out::Evicted{*kept, told_stays_ ? program_.gpu : ""});
}

// The bytes of contents. No value: the program runs, and the Manager has been told why.
std::optional<u64> ManagerClient::evict(const std::string &folder, protocol::Depth depth) {
  {
    std::lock_guard lock(mutex_);
    if (!eviction_.begin()) {
      connection_.send(out::Failed{"an API is being started"});
      return {};
    }
  }
  Result<u64> kept = eviction_.suspend(folder, depth);
  std::lock_guard lock(mutex_);
  if (!kept) {
    eviction_.cannot_suspend(kept.error().what);
    connection_.send(out::Failed{shortened(kept.error().what)});
    return {};
  }
  drop_credit();
  if (told_used_ != program_.memory.used()) tell_used();
  eviction_.suspended(*kept, !folder.empty());
  told_stays_ = false;
  return *kept;
}

void ManagerClient::on(const in::Deepen &) {
  Result<> done = eviction_.deepen();
  std::lock_guard lock(mutex_);
  if (!done) return connection_.send(out::Failed{shortened(done.error().what)});
  told_stays_ = false;
  connection_.send(out::Evicted{eviction_.kept(), ""});
}

// A resume that fails may have changed it: a move gives back what stays first.
void ManagerClient::tell_what_stays() {
  bool stays = eviction_.stays();
  if (stays == told_stays_) return;
  told_stays_ = stays;
  connection_.send(out::Evicted{eviction_.kept(), stays ? program_.gpu : ""});
}

void ManagerClient::on(const in::Migrate &m) {
  Result<> resumed = resume_on(m.gpu);
  std::lock_guard lock(mutex_);
  if (!resumed) {
    if (left_without_devices()) return;
    eviction_.cannot_resume(resumed.error().what);
    tell_what_stays();
    std::string unsuited = lifecycle_.unsuited();
    if (!unsuited.empty()) return connection_.send(out::Unsuited{m.gpu, shortened(unsuited)});
    return connection_.send(out::Failed{shortened(resumed.error().what)});
  }
  eviction_.resumed();
  told_stays_ = false;
  program_.gpu = m.gpu;
  changed_.notify_all();  // a connect() that waits until the program is on a device
  connection_.send(out::MigDone{program_.memory.used()});
}

Result<> ManagerClient::resume_on(const std::string &gpu) {
  std::unique_lock lock(mutex_);
  u32 apis = program_.managed_apis();
  lock.unlock();
  return eviction_.resume(gpu, apis);
}

// Without a Manager the program tries the GPU that it had, until there is room for it.
void ManagerClient::resume_standalone() {
  Result<> resumed = resume_on(program_.gpu);
  std::lock_guard lock(mutex_);
  eviction_.schedule_attempt();
  if (!resumed && left_without_devices()) return;
  if (!resumed) return eviction_.cannot_resume(resumed.error().what);
  eviction_.resumed();
  told_stays_ = false;
}

// The first question for the calls makes the participants record them.
void ManagerClient::on(const in::ReportProgress &m) {
  std::lock_guard lock(mutex_);
  progress_.start(milliseconds(m.interval_ms));
  (void)lifecycle_.calls();
}

}  // namespace ckpt::manager_client
