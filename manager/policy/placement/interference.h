// SPDX-License-Identifier: Apache-2.0
//
// Which profiles of programs gain by sharing a GPU, as their progress shows it. Of each profile it
// keeps how many device calls a second it makes alone, and beside each other profile; where both
// together get less done than one after the other (1/a + 1/b < 1, a and b their slowdowns), they
// are kept apart. Two that nobody has seen together are tried.
//
// A rate counts once enough is known of it (kLeastCalls, kLeastReports). What was found is not
// believed for ever: after kAgain times as long as it was measured for, the two are tried again, so
// that an error costs what it costs once in so long.
#pragma once

#include <optional>
#include <vector>

#include "manager/policy/profile/workload_profiles.h"

namespace ckpt::manager {

class Interference {
 public:
  // `report`: how often programs tell of their progress.
  explicit Interference(Time report) : report_(report) {}

  // That index is another profile's from now on.
  void forget(ProfileIndex profile);
  // One of `who` has made so many calls in that time, alone (kNoProfile) or beside one of the
  // other.
  void measured(Time now, ProfileIndex who, ProfileIndex other, u64 calls, Time time);
  // 1/a + 1/b; no value: not enough is known.
  std::optional<double> together(ProfileIndex a, ProfileIndex b) const;
  // They are known to lose, and are not to be tried again yet.
  bool apart(Time now, ProfileIndex a, ProfileIndex b) const;
  // All is known but how fast `a` is alone: it is worth a moment to find out. Not for longer than
  // kMostAlone for each profile, and no more of all time than a hundredth and kFirstAlone, or what
  // is learned would cost more than it gives.
  bool wants_alone(Time now, ProfileIndex a, ProfileIndex b);

  struct Finding {
    ProfileIndex a, b;
    double together;
    bool apart;
  };
  std::vector<Finding> findings(Time now) const;

 private:
  struct Beside {
    Rate rate;
    bool poor = false, judged = false;
    Time apart_until{0};
  };
  struct Row {
    Rate alone;
    std::vector<Beside> beside;       // by the other's index
    std::optional<Time> alone_since;  // when it was first kept alone to be measured
  };
  Row &row(ProfileIndex profile);
  const Beside *beside(ProfileIndex a, ProfileIndex b) const;
  Beside &beside(ProfileIndex a, ProfileIndex b);
  bool enough(const Rate &r) const;
  bool both_known(ProfileIndex a, ProfileIndex b) const;
  void judge(Time now, ProfileIndex a, ProfileIndex b, bool fresh);

  Time report_;
  Time first_alone_{0}, last_alone_{0}, spent_alone_{0};
  std::vector<Row> rows_;  // by the profile's index
};

}  // namespace ckpt::manager
