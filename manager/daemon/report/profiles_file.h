// SPDX-License-Identifier: Apache-2.0
//
// What is known of profiles of programs, in a file from one ckptd to the next: JSON, as it is told
// in the status.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "manager/policy/profile/workload_profiles.h"

namespace ckpt::manager {

nlohmann::json profiles_as_json(const std::vector<ProfileFacts> &all);
// Nothing where there is no such file. One that is not understood is an error; a profile that is
// not is left out.
Result<std::vector<ProfileFacts>> read_profiles(const std::string &path);
// The file is the old one or the new one, whole, unless the machine stops.
Result<> write_profiles(const std::string &path, const std::vector<ProfileFacts> &all);

class ProfilesFile {
 public:
  // Without a path nothing is kept.
  explicit ProfilesFile(std::string path) : path_(std::move(path)) {}
  // What an earlier one has kept. What cannot be read is no reason not to serve anybody, and is
  // said; that nothing can be written here is an error.
  Result<std::vector<ProfileFacts>> recall(Time now);
  // If there is something new.
  void keep(const WorkloadProfiles &profiles, Time now);
  // Until it is time for that, in milliseconds; negative: there is nothing new.
  int timeout(const WorkloadProfiles &profiles, Time now) const;

 private:
  bool has_news(const WorkloadProfiles &profiles) const {
    return !path_.empty() && profiles.changes() != kept_;
  }

  std::string path_;
  Time kept_at_{0};
  u64 kept_ = 0;  // their number of changes then
};

}  // namespace ckpt::manager
