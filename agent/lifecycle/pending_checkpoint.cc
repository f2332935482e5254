// SPDX-License-Identifier: Apache-2.0
#include "agent/lifecycle/pending_checkpoint.h"

#include "ckpt/ckpt.h"

namespace ckpt::agent {
namespace {

// How long the session keeper may take to report a reason, and how often it is probed.
constexpr std::chrono::seconds kReasonTimeout{2};
constexpr std::chrono::seconds kProbeInterval{5};

}  // namespace

bool PendingCheckpoint::begin() {
  std::scoped_lock lock(mutex_);
  if (active_) return false;
  active_ = true;
  decided_.reset();
  presumed_.reset();
  return true;
}

void PendingCheckpoint::end() {
  std::scoped_lock lock(mutex_);
  active_ = false;
}

Verdict PendingCheckpoint::wait(const std::function<bool()> &keeper_alive) {
  std::unique_lock lock(mutex_);
  auto has_verdict = [&] { return decided_ || presumed_; };
  while (!changed_.wait_for(lock, kProbeInterval, has_verdict)) {
    lock.unlock();
    bool alive = keeper_alive();
    lock.lock();
    if (!alive && !has_verdict())
      return {CKPT_ERR_FAILED, {"the session keeper (ckpt-run or ckpt-restore) has ended", {}}};
  }
  if (!decided_) changed_.wait_for(lock, kReasonTimeout, [&] { return decided_.has_value(); });
  return decided_ ? *decided_ : *presumed_;
}

void PendingCheckpoint::decide(Verdict verdict) {
  std::scoped_lock lock(mutex_);
  if (!active_ || decided_) return;
  decided_ = std::move(verdict);
  changed_.notify_all();
}

void PendingCheckpoint::presume(Verdict verdict) {
  std::scoped_lock lock(mutex_);
  if (!active_ || presumed_) return;
  presumed_ = std::move(verdict);
  changed_.notify_all();
}

bool PendingCheckpoint::awaited() const {
  std::scoped_lock lock(mutex_);
  return active_;
}

}  // namespace ckpt::agent
