// SPDX-License-Identifier: Apache-2.0
//
// The profiles of workloads, in a file that a later ckptd reads: JSON, as in the status.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "manager/policy/profile/workload_profiles.h"

namespace ckpt::manager {

nlohmann::json profiles_as_json(const std::vector<ProfileFacts> &all);
// Empty if the file does not exist. A file that cannot be parsed is an error; a profile that cannot
// be parsed is left out.
Result<std::vector<ProfileFacts>> read_profiles(const std::string &path);
// Replaces the file as a whole, unless the machine stops.
Result<> write_profiles(const std::string &path, const std::vector<ProfileFacts> &all);

class ProfilesFile {
 public:
  // Without a path, nothing is read or written.
  explicit ProfilesFile(std::string path) : path_(std::move(path)) {}
  // The profiles of an earlier ckptd. A file that cannot be read is replaced, with a warning,
  // because the node can be served without it. An error: the file cannot be written.
  Result<std::vector<ProfileFacts>> load(Time now);
  // Writes the profiles if they have changed.
  void save(const WorkloadProfiles &profiles, Time now);
  // In milliseconds: until save() is due; negative: nothing has changed.
  int timeout(const WorkloadProfiles &profiles, Time now) const;

 private:
  bool has_changed(const WorkloadProfiles &profiles) const {
    return !path_.empty() && profiles.changes() != saved_changes_;
  }

  std::string path_;
  Time saved_at_{0};
  u64 saved_changes_ = 0;  // WorkloadProfiles::changes() then
};

}  // namespace ckpt::manager
