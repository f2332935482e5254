// SPDX-License-Identifier: Apache-2.0
//
// Which workloads gain by sharing a GPU, as their progress shows. For each workload it keeps the
// rate of its device calls, alone and beside each other workload. Let a and b be the slowdowns of
// two workloads beside each other: if 1/a + 1/b < 1, they get less done together than one after the
// other, and are kept apart. Two that were not observed together are tried.
//
// A rate counts once it covers enough calls and reports. A finding expires: after kRetryFactor
// times as long as it was measured for, the two are tried again, so an error costs only what one
// trial costs.
#pragma once

#include <optional>
#include <vector>

#include "manager/policy/profile/workload_profiles.h"

namespace ckpt::manager {

class Interference {
 public:
  // `interval`: the time between the progress reports of a program.
  explicit Interference(Time interval) : interval_(interval) {}

  // The index belongs to another workload from now on.
  void forget(ProfileIndex profile);
  // A program of `profile` made `calls` calls in `time`, alone (`other` is kNoProfile) or beside a
  // program of `other`.
  void measured(Time now, ProfileIndex profile, ProfileIndex other, u64 calls, Time time);
  // 1/a + 1/b; no value: not enough was observed.
  std::optional<double> throughput(ProfileIndex a, ProfileIndex b) const;
  // They are known to lose, and the finding has not expired.
  bool kept_apart(Time now, ProfileIndex a, ProfileIndex b) const;
  // Only the rate of `a` alone is unknown, so `b` should wait for a moment. The total of such waits
  // is bounded for each workload and for the node, so that learning costs less than it gains.
  bool needs_rate_alone(Time now, ProfileIndex a, ProfileIndex b);

  struct Finding {
    ProfileIndex a, b;
    double throughput;
    bool kept_apart;
  };
  std::vector<Finding> findings(Time now) const;

 private:
  struct Pair {
    Rate rate;
    bool loses = false, judged = false;
    Time apart_until{0};
  };
  struct Row {
    Rate alone;
    std::vector<Pair> beside;         // by the other workload's index
    std::optional<Time> alone_since;  // when it was first kept alone to be measured
  };
  Row &row(ProfileIndex profile);
  const Pair *pair(ProfileIndex a, ProfileIndex b) const;
  Pair &pair(ProfileIndex a, ProfileIndex b);
  bool enough(const Rate &r) const;
  bool both_known(ProfileIndex a, ProfileIndex b) const;
  void judge(Time now, ProfileIndex a, ProfileIndex b, bool observed_together);

  Time interval_;
  Time first_alone_{0}, last_alone_{0}, spent_alone_{0};
  std::vector<Row> rows_;  // by index of profile
};

}  // namespace ckpt::manager
