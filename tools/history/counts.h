// SPDX-License-Identifier: Apache-2.0
//
// What the events of histories add up to. A history is bounded, so that counts of its lines would
// fall; these are kept, with how far each history was read, and only grow.
#pragma once

#include <array>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/bytes.h"
#include "tools/history/user_history.h"

namespace ckpt::tools {

class Durations {
 public:
  static constexpr std::array<double, 13> kLimits = {0.1, 0.25, 0.5, 1,   2.5, 5,   10,
                                                     30,  60,   120, 300, 600, 1800};  // seconds

  void add(double seconds);
  const std::array<u64, kLimits.size() + 1> &counts() const { return counts_; }
  double sum() const { return sum_; }

  nlohmann::json saved() const { return {{"counts", counts_}, {"sum", sum_}}; }
  static Durations from(const nlohmann::json &j);

 private:
  std::array<u64, kLimits.size() + 1> counts_{};
  double sum_ = 0;
};

struct NewestImage {
  std::string image;
  double time = 0;  // seconds since 1970
  u64 bytes = 0, stored_bytes = 0;
};

struct UserCounts {
  u64 dumps = 0, failed_dumps = 0, restores = 0, failed_restores = 0;
  u64 stored_bytes = 0;                       // of all dumps
  std::map<std::string, NewestImage> newest;  // by program
};

struct HistoryCounts {
  // Each user's programs with the newest images; a user could name any number.
  static constexpr size_t kMostPrograms = 50;

  std::map<std::string, UserCounts> users;  // by name
  std::map<std::string, ReadUpTo> read;     // by file
  Durations dump, pause, restore;

  // Only events of this host: home folders may be on a file system that hosts share.
  void add(const std::string &name, const nlohmann::json &event, const std::string &host,
           double now);

  nlohmann::json saved() const;
  static HistoryCounts from(const nlohmann::json &j);

 private:
  void add_dump(UserCounts &user, const nlohmann::json &event, double now);
};

}  // namespace ckpt::tools
