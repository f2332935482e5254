// SPDX-License-Identifier: Apache-2.0
//
// The functions of Lifecycle for suspended programs.
#include <algorithm>

#include "agent/ipc/session.h"
#include "agent/lifecycle/lifecycle.h"
#include "common/base/log.h"

namespace ckpt::agent {

using protocol::Depth;
using protocol::State;

Result<u64> Lifecycle::keep(const std::string &folder) {
  if (Result<> r = open_store(folder); !r) return undo_and_fail(std::move(r).error());
  if (Result<> moved = move_into_store(); !moved) return undo_and_fail(std::move(moved).error());
  state_ = State::Saved;
  kept_ = true;
  return store_->bytes();
}

Result<u64> Lifecycle::suspend(const std::string &folder, Depth depth) {
  if (!kept_) CKPT_CHECK(keep(folder));
  depth_ = depth;
  if (Result<> r = detach_members(); !r) return undo_and_fail(std::move(r).error());
  for (Member &m : members_) m.participant->release_devices();
  state_ = State::Suspended;
  return store_->bytes();
}

Result<> Lifecycle::leave(Participant &participant) {
  return depth_ == Depth::Memory ? participant.release_memory() : participant.detach();
}

// ---- depths

Depth Lifecycle::depth() const {
  if (state_ != State::Suspended) return Depth::None;
  auto there = [](const Member &m) { return m.participant->on_devices(); };
  return std::ranges::any_of(members_, there) ? Depth::Memory : Depth::Full;
}

Result<> Lifecycle::lock_suspended() {
  return deepen_members([](Participant &p) { return p.lock(); });
}

Result<u64> Lifecycle::deepen() {
  CKPT_CHECK(deepen_members([](Participant &p) {
    Result<> left = p.detach();
    if (left) p.release_devices();
    return left;
  }));
  locked_ = false;
  depth_ = Depth::Full;
  return store_->bytes();
}

Result<> Lifecycle::deepen_members(const std::function<Result<>(Participant &)> &step) {
  locked_ = true;
  for (Member &m : members_) {
    if (!m.participant->on_devices()) continue;
    Result<> done = step(*m.participant);
    if (done) continue;
    undo_lock();
    return Failure(cannot("leave its devices", m.participant, std::move(done).error()));
  }
  return {};
}

void Lifecycle::undo_lock() {
  if (!std::exchange(locked_, false)) return;
  for (Member &m : members_)
    if (m.participant->on_devices()) m.participant->undo_lock();
}

// ---- the resume

Result<> Lifecycle::wake(const std::string &session, const std::function<void()> &before_it_runs) {
  Result<> awake = attach(session);
  for (Member &m : members_)
    if (awake) awake = load_from_store(m.participant);
  if (awake) {
    if (before_it_runs) before_it_runs();
    open_gates();
    spent_ = std::exchange(store_, std::nullopt);
    finish({CKPT_CONTINUED, {}});
    return {};
  }
  detach_again();
  for (Member &m : members_) m.participant->release_devices();
  state_ = State::Suspended;
  auto lost = [](const Member &m) { return m.participant->lost(); };
  if (std::ranges::any_of(members_, lost) || !session_has_keeper()) lose_suspended(awake.error());
  return awake;
}

// Without a keeper no tool finds the program again, and no proxy starts.
void Lifecycle::wake_without_keeper() {
  log::warn("the session keeper of this suspended program has ended: the program continues");
  (void)wake(session_socket());
  release_spent();
}

void Lifecycle::lose_suspended(const Error &why) {
  log::error("this suspended program has lost its devices: {}", why.what);
  lose_devices(why);
  finish({CKPT_ERR_LOST, why});
}

Result<> Lifecycle::use_devices(const std::string &participant, std::span<const DevicePair> map) {
  for (Member &m : members_)
    if (m.participant->name() == participant) return m.participant->use_devices(map);
  return fail("this program does not use the API \"{}\"", participant);
}

std::string Lifecycle::unsuited() const {
  for (const Member &m : members_)
    if (std::string why = m.participant->unsuited(); !why.empty()) return why;
  return {};
}

std::string Lifecycle::place() const {
  for (Participant *p : participants_())
    if (std::string gpu = p->place(); !gpu.empty()) return gpu;
  return {};
}

}  // namespace ckpt::agent
