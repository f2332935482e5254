// SPDX-License-Identifier: Apache-2.0
#include "slicing/turns.h"

#include "common/base/log.h"

namespace ckpt::slicing {
namespace {

using Nanoseconds = std::chrono::duration<double, std::nano>;

double ns_of(Clock::time_point time) { return Nanoseconds(time.time_since_epoch()).count(); }

Clock::time_point time_of(double ns) {
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(Nanoseconds(ns)));
}

}  // namespace

double Turns::target_ns() {
  if (!settings_.guest || settings_.slice_ns > 0) return settings_.slice_ns;
  std::lock_guard lock(mutex_);
  return cooperation_.slice_ns();
}

bool Turns::has_room(double ns) {
  if (!settings_.guest) return true;
  std::lock_guard lock(mutex_);
  return cooperation_.fits(ns);
}

bool Turns::used(double ns, Clock::time_point begin) {
  if (!settings_.guest) return false;
  std::lock_guard lock(mutex_);
  return cooperation_.used(ns, ns_of(begin));
}

Turns::After Turns::tested(std::string_view what, double ns, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  bool before = cooperation_.continuous();
  log::debug("{}: {}, the empty kernels took {:.3f} ms", what, before ? "continuous" : "periodic",
             ns / 1e6);
  After after{time_of(cooperation_.tested(ns, ns_of(now))), std::nullopt};
  if (before != cooperation_.continuous())
    log::info("guest: {} mode", before ? "periodic" : "continuous");
  if (cooperation_.tests_again()) after.test = time_of(cooperation_.next_test());
  return after;
}

}  // namespace ckpt::slicing
