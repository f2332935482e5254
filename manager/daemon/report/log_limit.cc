// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/report/log_limit.h"

#include <utility>

namespace ckpt::manager {

std::optional<u64> LogLimit::admit(Time now, uid_t user) {
  forget_quiet_users(now);
  User &u = users_.try_emplace(user, User{now, 0, 0}).first->second;
  if (now - u.since >= kInterval) u = {now, 0, u.left_out};
  if (u.lines >= kLines) {
    u.left_out++;
    return std::nullopt;
  }
  u.lines++;
  return std::exchange(u.left_out, 0);
}

// A user of whom lines were left out is kept until the number is logged.
void LogLimit::forget_quiet_users(Time now) {
  std::erase_if(users_, [now](const auto &entry) {
    return entry.second.left_out == 0 && now - entry.second.since >= kInterval;
  });
}

}  // namespace ckpt::manager
