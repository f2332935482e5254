// SPDX-License-Identifier: Apache-2.0
//
// What programs of one profile have in common, as those that ran have shown. A profile is an
// executable with its arguments: who runs it again mostly does the same again.
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

// The hash of what `user` calls by that hash: in its upper half whose it is. What one user's
// programs do says nothing of another's, whatever they call themselves.
u64 hash_of_user(u32 user, u64 hash);

// What is worth keeping of one.
struct ProfileFacts {
  u64 hash = 0;
  std::string name;
  u64 calls = 0, peak = 0;         // as calls() and peak()
  double copied = 0, watched = 0;  // bytes between host and device, in so many seconds
};

class WorkloadProfiles {
 public:
  // The profile of that hash, which is not 0. Of very many the user who has most loses the one that
  // was used longest ago: then `is_new` is true of an index that was another profile's.
  struct Found {
    ProfileIndex index;
    bool is_new;
  };
  Found find(Time now, u64 hash, const std::string &name);

  // It still is the profile of that hash.
  bool is(ProfileIndex profile, u64 hash) const {
    return known(profile) && profiles_[profile].hash == hash;
  }

  // One of them has so many bytes on its GPU.
  void holds(ProfileIndex profile, u64 bytes);
  // One of them has copied so many bytes between host and device in that time.
  void copied(ProfileIndex profile, u64 bytes, Time time);
  // One of them has come to its end, after so many device calls and with so many bytes at most.
  void over(ProfileIndex profile, u64 calls, u64 peak);

  // One that was known before, to another Manager perhaps.
  void learn(Time now, const ProfileFacts &facts);
  std::vector<ProfileFacts> facts() const;
  // Another number whenever there is something new that is worth keeping.
  u64 changes() const { return changes_; }

  std::string name(ProfileIndex profile) const {
    return known(profile) ? profiles_[profile].name : "";
  }
  // Device calls that one makes until its end; 0: not known.
  u64 calls(ProfileIndex profile) const { return known(profile) ? profiles_[profile].calls : 0; }
  // Bytes that one has on its GPU at most; 0: not known.
  u64 peak(ProfileIndex profile) const { return known(profile) ? profiles_[profile].peak : 0; }
  // What one asks of its GPU.
  Demand demand(ProfileIndex profile) const {
    return known(profile) ? profiles_[profile].demand : Demand{};
  }

 private:
  // Before what was seen of copies is believed.
  static constexpr size_t kLeastStretches = 4;
  struct Profile {
    u64 hash = 0;
    std::string name;
    u64 calls = 0;
    u64 peak = 0;
    Rate copies;
    Demand demand;
    Time used{0};
    bool shown() const { return copies.stretches() >= kLeastStretches; }
  };
  void note_demands();
  Profile &to_replace();
  bool known(ProfileIndex profile) const { return profile < profiles_.size(); }

  std::vector<Profile> profiles_;
  std::unordered_map<u64, ProfileIndex> index_;
  u64 changes_ = 0;
};

}  // namespace ckpt::manager
