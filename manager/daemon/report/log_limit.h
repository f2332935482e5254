// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>

#include "common/base/bytes.h"
#include "manager/policy/time.h"

namespace ckpt::manager {

// Bounds the lines that each user can make the daemon log: every user of the node may connect, and
// send what is refused, as fast as the daemon answers.
class LogLimit {
 public:
  static constexpr int kLines = 10;  // of one user, in each interval
  static constexpr std::chrono::seconds kInterval{60};

  // No value: nothing more is logged about this user now. Otherwise the number of lines that were
  // left out before this one.
  std::optional<u64> admit(Time now, uid_t user);
  size_t users() const { return users_.size(); }

 private:
  struct User {
    Time since{0};  // when the interval began
    int lines = 0;
    u64 left_out = 0;
  };
  void forget_quiet_users(Time now);

  std::map<uid_t, User> users_;
};

}  // namespace ckpt::manager
