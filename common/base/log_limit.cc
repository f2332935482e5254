// SPDX-License-Identifier: Apache-2.0
#include "common/base/log_limit.h"

#include <utility>

namespace ckpt {

std::optional<u64> LogLimit::admit(Time now, u64 peer) {
  forget_quiet_peers(now);
  Peer &p = peers_.try_emplace(peer, Peer{now, 0, 0}).first->second;
  if (now - p.since >= kInterval) p = {now, 0, p.left_out};
  if (p.lines >= kLines) {
    p.left_out++;
    return std::nullopt;
  }
  p.lines++;
  return std::exchange(p.left_out, 0);
}

// A peer with lines that were left out is kept until their number is logged.
void LogLimit::forget_quiet_peers(Time now) {
  std::erase_if(peers_, [now](const auto &entry) {
    return entry.second.left_out == 0 && now - entry.second.since >= kInterval;
  });
}

}  // namespace ckpt
