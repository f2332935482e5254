// SPDX-License-Identifier: Apache-2.0
#include "manager-client/orders.h"

namespace ckpt::manager_client {

namespace out = managed::to_manager;

namespace {

std::string shortened(const std::string &reason) {
  return reason.substr(0, managed::kMaxReasonBytes);
}

}  // namespace

// ---- leaving

void Orders::answer_signal() {
  if (state_.connection.joined() && state_.eviction.take_signal())
    state_.connection.send(out::Query{});
}

void Orders::suspend(const std::string &folder) {
  std::optional<u64> kept = evict(folder, protocol::Depth::Full);
  if (!kept) return;
  std::lock_guard lock(state_.mutex);
  state_.connection.send(out::SuspendDone{*kept});
}

void Orders::suspend_memory(const std::string &folder) {
  std::optional<u64> kept = evict(folder, protocol::Depth::Memory);
  if (!kept) return;
  std::lock_guard lock(state_.mutex);
  told_stays_ = state_.eviction.stays();
  state_.connection.send(out::Evicted{*kept, told_stays_ ? state_.program.gpu : ""});
}

// The bytes of contents. No value: the program runs, and the Manager has been told why.
std::optional<u64> Orders::evict(const std::string &folder, protocol::Depth depth) {
  {
    std::lock_guard lock(state_.mutex);
    if (!state_.eviction.begin()) {
      state_.connection.send(out::Failed{"an API is being started"});
      return {};
    }
  }
  Result<u64> kept = state_.eviction.suspend(folder, depth);
  std::lock_guard lock(state_.mutex);
  if (!kept) {
    state_.eviction.cannot_suspend(kept.error().what);
    state_.connection.send(out::Failed{shortened(kept.error().what)});
    return {};
  }
  state_.claims.memory.drop_credit();
  state_.claims.memory.tell_used();
  state_.eviction.suspended(*kept, !folder.empty());
  told_stays_ = false;
  return *kept;
}

void Orders::deepen() {
  Result<> done = state_.eviction.deepen();
  std::lock_guard lock(state_.mutex);
  if (!done) return state_.connection.send(out::Failed{shortened(done.error().what)});
  told_stays_ = false;
  state_.connection.send(out::Evicted{state_.eviction.kept(), ""});
}

void Orders::introduce_what_stays() {
  told_stays_ = false;
  tell_what_stays();
}

// A resume that fails may have changed it: a move gives back what stays first.
void Orders::tell_what_stays() {
  bool stays = state_.eviction.stays();
  if (stays == told_stays_) return;
  told_stays_ = stays;
  state_.connection.send(out::Evicted{state_.eviction.kept(), stays ? state_.program.gpu : ""});
}

// ---- returning

void Orders::migrate(const std::string &gpu) {
  Result<> resumed = resume_on(gpu);
  std::lock_guard lock(state_.mutex);
  if (!resumed) return cannot_migrate(gpu, resumed.error().what);
  state_.eviction.resumed();
  told_stays_ = false;
  state_.program.gpu = gpu;
  state_.waiters.wake();  // a connect() that waits until the program is on a device
  state_.connection.send(out::MigDone{state_.program.memory.used()});
}

void Orders::cannot_migrate(const std::string &gpu, const std::string &why) {
  if (left_without_devices()) return;
  state_.eviction.cannot_resume(why);
  tell_what_stays();
  std::string unsuited = state_.lifecycle.unsuited();
  if (!unsuited.empty()) return state_.connection.send(out::Unsuited{gpu, shortened(unsuited)});
  state_.connection.send(out::Failed{shortened(why)});
}

Result<> Orders::resume_on(const std::string &gpu) {
  std::unique_lock lock(state_.mutex);
  u32 apis = state_.program.managed_apis();
  lock.unlock();
  return state_.eviction.resume(gpu, apis);
}

void Orders::resume_standalone() {
  Result<> resumed = resume_on(state_.program.gpu);
  std::lock_guard lock(state_.mutex);
  state_.eviction.schedule_attempt();
  if (!resumed && left_without_devices()) return;
  if (!resumed) return state_.eviction.cannot_resume(resumed.error().what);
  state_.eviction.resumed();
  told_stays_ = false;
}

// ---- the end

void Orders::leave() {
  state_.connection.refuse();
  state_.claims.grant_all();
  state_.claims.memory.drop_credit();
  state_.waiters.wake();
}

// Whether a program that cannot resume runs on without its devices (Lifecycle::wake). It has
// nothing to manage then, and its calls must return their errors.
bool Orders::left_without_devices() {
  if (state_.lifecycle.state() != protocol::State::Running) return false;
  state_.eviction.resumed();
  leave();
  return true;
}

}  // namespace ckpt::manager_client
