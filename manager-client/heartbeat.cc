// SPDX-License-Identifier: Apache-2.0
#include "manager-client/heartbeat.h"

namespace ckpt::manager_client {

void Heartbeat::heard() {
  asked_ = false;
  missed_ = 0;
}

// One question at a time, because a Manager that does not read must not be sent more and more.
Heartbeat::Action Heartbeat::turn(Clock::time_point now, Duration patience) {
  bool first = !next_;
  if (!first && now < *next_) return Action::None;
  next_ = now + beat(patience);
  if (first) return Action::None;
  if (!asked_) {
    asked_ = true;
    return Action::Ask;
  }
  return ++missed_ >= kBeats ? Action::GiveUp : Action::None;
}

}  // namespace ckpt::manager_client
