// SPDX-License-Identifier: Apache-2.0
//
// The functions of Lifecycle that tell a tool what a move would take along, and what the way to the
// devices costs the program.
#include "agent/lifecycle/lifecycle.h"

namespace ckpt::agent {

using protocol::State;

Lifecycle::Traffics Lifecycle::traffic() const {
  bool runs = state_ == State::Running;
  Traffics t;
  t.time = (runs ? Clock::now() : gated_at_) - opened_at_;
  if (!runs && store_) t.held_bytes = store_->bytes();
  for (Participant *p : participants_()) {
    if (runs) t.held_bytes += p->held_bytes();
    std::optional<Traffic> now = p->traffic();
    auto before = counted_before_.find(p);
    if (now && before != counted_before_.end()) {
      now->waits -= before->second.waits;
      now->bytes -= before->second.bytes;
    }
    t.all.push_back({p->name(), now});
  }
  return t;
}

void Lifecycle::begin_counting() {
  opened_at_ = Clock::now();
  counted_before_.clear();
  for (Participant *p : participants_())
    if (std::optional<Traffic> now = p->traffic()) counted_before_[p] = *now;
}

Result<std::string> Lifecycle::requirements_now() const {
  if (state_ != State::Running) return requirements();
  std::vector<std::string> all;
  for (Participant *p : participants_()) {
    CKPT_TRY(std::string one, p->requirements_now());
    all.push_back(std::move(one));
  }
  return joined(all);
}

}  // namespace ckpt::agent
