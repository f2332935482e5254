// SPDX-License-Identifier: Apache-2.0
#include "manager-client/heartbeat.h"

namespace ckpt::manager_client {

// One question at a time: whoever does not read must not be sent more and more.
Heartbeat::Do Heartbeat::turn(Clock::time_point now, Duration patience) {
  bool first = !next_;
  if (!first && now < *next_) return Do::Nothing;
  next_ = now + beat(patience);
  if (first) return Do::Nothing;
  if (!asked_) return asked_ = true, Do::Ask;
  return ++missed_ >= kBeats ? Do::GiveUp : Do::Nothing;
}

}  // namespace ckpt::manager_client
