// SPDX-License-Identifier: Apache-2.0
//
// The known properties of workloads, from earlier runs. A workload is an executable with its
// arguments, run by one user; another run of it mostly behaves in the same way.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/bytes.h"
#include "manager/policy/placement/load.h"
#include "manager/policy/profile/rate.h"

namespace ckpt::manager {

using ProfileIndex = u32;
inline constexpr ProfileIndex kNoProfile = ~0u;

// The hash of a workload of `user`; `hash` is what the program reports. Its upper half names the
// user, so what one user's programs report never affects the profiles of another user.
u64 hash_of_user(u32 user, u64 hash);

// The part of a profile that is kept in a file.
struct ProfileFacts {
  u64 hash = 0;
  std::string name;
  u64 calls = 0, peak = 0;          // as calls() and peak()
  double copied = 0, observed = 0;  // bytes between host and device, and the seconds that they took
};

class WorkloadProfiles {
 public:
  // The profile of that hash, which is not 0. When there are too many, the least recently used
  // profile of the user with the most profiles is removed. `is_new`: the profile is empty, and its
  // index may have been another workload's.
  struct Found {
    ProfileIndex index;
    bool is_new;
  };
  Found find(Time now, u64 hash, const std::string &name);

  // The index still belongs to that workload.
  bool is(ProfileIndex i, u64 hash) const { return known(i) && profiles_[i].hash == hash; }

  // A program of the workload has that many bytes on its GPU.
  void holds(ProfileIndex i, u64 bytes);
  // It has copied that many bytes between host and device in that time.
  void copied(ProfileIndex i, u64 bytes, Time time);
  // It has ended, after that many device calls and with that peak.
  void ended(ProfileIndex i, u64 calls, u64 peak);
  // The driver has reported kernels of one of its programs.
  void sampled(ProfileIndex i);
  // The kernels of a whole run took that long.
  void worked(ProfileIndex i, Time kernels);
  // While it was the only program of its GPU that does not mostly copy, kernels ran there for
  // `kernels` of `time`.
  void occupied(ProfileIndex i, Time kernels, Time time);

  // Adds what an earlier Manager knew.
  void learn(Time now, const ProfileFacts &facts);
  std::vector<ProfileFacts> facts() const;
  // Increases whenever there is something new that is worth keeping.
  u64 changes() const { return changes_; }

  std::string name(ProfileIndex i) const { return known(i) ? profiles_[i].name : ""; }
  // Device calls of one run; 0: unknown.
  u64 calls(ProfileIndex i) const { return known(i) ? profiles_[i].calls : 0; }
  // The largest number of bytes on the GPU; 0: unknown.
  u64 peak(ProfileIndex i) const { return known(i) ? profiles_[i].peak : 0; }
  // The time of the kernels of one run; 0: unknown.
  Time work(ProfileIndex i) const { return known(i) ? profiles_[i].work : Time{0}; }
  bool is_sampled(ProfileIndex i) const { return known(i) && profiles_[i].sampled; }
  Demand demand(ProfileIndex i) const { return known(i) ? profiles_[i].demand : Demand{}; }

 private:
  // Observations of copies before they are believed.
  static constexpr size_t kMinIntervals = 4;
  struct Profile {
    u64 hash = 0;
    std::string name;
    u64 calls = 0;
    u64 peak = 0;
    Rate copies;
    Demand demand;
    Time work{0};
    bool sampled = false;
    Time occupied{0}, observed_for{0};  // as in occupied()
    Time used{0};
    bool pauses() const;
    bool observed() const { return copies.intervals() >= kMinIntervals; }
  };
  void update_demands();
  Profile &least_valuable();
  bool known(ProfileIndex i) const { return i < profiles_.size(); }

  std::vector<Profile> profiles_;
  std::unordered_map<u64, ProfileIndex> index_;
  u64 changes_ = 0;
};

}  // namespace ckpt::manager
