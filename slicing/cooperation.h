// SPDX-License-Identifier: Apache-2.0
//
// When a guest may use the device, and for how long: the control loop of the paper (docs/PAPERS.md,
// CM-2 to CM-6). It only keeps state; the caller has the clock and the device.
//
//   host (the owner's work)   draws a frame every 1/F, which costs it Tr
//   turn                      what the guest runs before it looks at the load again
//   periodic mode             the load is high: a turn of N1 in each 1/F, and a pause in which the
//                             load is tested several times
//   continuous mode           the load was low R times in a row: turns of N2 without a pause
//
// N1 and N2 are times here, of which SliceSize makes blocks for each kernel: Ts <= 1/F - Tr.
#pragma once

#include <algorithm>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::slicing {

struct CooperationSettings {
  double frames = 60;           // F, per second
  double frame_share = 0.5;     // Tr as a part of 1/F
  double continuous_share = 1;  // N2 as a part of 1/F
  u32 kernels = 4;              // empty kernels of a load test, one behind the other
  double margin = 4;            // sigma = idle time x (1 + margin)
  u32 window = 32;              // load tests of which the percentile is taken
  double percentile = 0.9;
  u32 lows = 16;   // R
  u32 probes = 4;  // load tests from one turn to the next in periodic mode

  double period_ns() const { return 1e9 / frames; }
};

// Whether the device has other work, from the time that empty kernels take (CM-3, CM-4). The idle
// time is the shortest so far, as no kernel is faster than on an idle device, but for a few tests.
class DeviceLoad {
 public:
  explicit DeviceLoad(const CooperationSettings &s) : settings_(s) {}
  void tested(double ns);
  // Whether a test of `ns` shows other work.
  bool is_late(double ns) const { return ns >= idle_ns_ * (1 + settings_.margin); }
  bool low() const { return lows_ >= settings_.lows; }
  double idle_ns() const { return idle_ns_; }

 private:
  double percentile(double part) const;

  CooperationSettings settings_;
  std::vector<double> window_;  // a ring; `next_` is the oldest
  size_t next_ = 0;
  double idle_ns_ = 0;  // 0: there were no tests
  u32 lows_ = 0;
};

class Cooperation {
 public:
  explicit Cooperation(const CooperationSettings &s) : settings_(s), load_(s) {}

  // The lengths of slices and turns.
  double slice_ns() const;
  // Whether work of `ns` may still start in this turn; if not, the turn is over.
  bool fits(double ns) const { return used_ns_ == 0 || used_ns_ + ns <= slice_ns(); }
  // The guest's work uses the device for `ns` from `begin` on, by any clock in nanoseconds. True:
  // the turn is over, so the load is tested.
  bool used(double ns, double begin);
  // The empty kernels of a test took `ns` until `now`. Returns the time of the next turn.
  double tested(double ns, double now);
  // Whether the load is to be tested again before that, and when.
  bool tests_again() const { return next_test_ > 0; }
  double next_test() const { return next_test_; }
  bool continuous() const { return load_.low(); }

 private:
  CooperationSettings settings_;
  DeviceLoad load_;
  double used_ns_ = 0;    // of this turn
  double begin_ = 0;      // of the turn
  double due_ = 0;        // when the next turn begins
  u32 probes_ = 0;        // load tests since the turn ended
  double next_test_ = 0;  // 0: none before the next turn
};

}  // namespace ckpt::slicing
