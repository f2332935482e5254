// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "common/base/bytes.h"

namespace ckpt {

// Bounds the lines that each peer can make a daemon log: a peer that may connect can send invalid
// messages as fast as the daemon answers. A peer is identified by a number, such as its uid.
class LogLimit {
 public:
  using Time = std::chrono::microseconds;  // since an arbitrary start
  static constexpr int kLines = 10;        // of one peer, in each interval
  static constexpr std::chrono::seconds kInterval{60};

  // No value: nothing more is logged about this peer now. Otherwise the number of lines that were
  // left out before this one.
  std::optional<u64> admit(Time now, u64 peer);
  size_t peers() const { return peers_.size(); }

 private:
  struct Peer {
    Time since{0};  // when the interval began
    int lines = 0;
    u64 left_out = 0;
  };
  void forget_quiet_peers(Time now);

  std::map<u64, Peer> peers_;
};

}  // namespace ckpt
