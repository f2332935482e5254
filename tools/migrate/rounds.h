// SPDX-License-Identifier: Apache-2.0
//
// How many rounds of pre-copy a migration makes, and how long the program will be stopped: a policy
// that knows no clock.
//
// Round 0 copies everything while the program runs; each later round copies what has changed since
// the one before. The last one is made while the program is stopped, so the fewer bytes change, the
// shorter is the stop. It takes the dump's own time, the time to send what is not sent meanwhile,
// and the time to restore the program there.
//
// What the next round will send is what changes during this one: a round of 100 MB that took 10 s
// after one of 20 s is followed by one of 50 MB. So rounds are worth it as long as they get
// shorter, also if two of them have sent almost the same. A program that writes to the same memory
// again and again changes as much in 1 s as in 10 s: when this shows, rounds end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::tools {

struct RoundCost {
  double dump_seconds = 0;  // from the pause until the image was on the disk
  double rest_seconds = 0;  // from then until the other machine had it
  double send_seconds = 0;  // in which the link was used, also during the dump
  u64 sent_bytes = 0;
  u64 raw_bytes = 0;          // of the whole program
  double check_seconds = 0;   // of the check of the first image there
  double period_seconds = 0;  // from the cut of the round before until this one's: what was sent
                              // has changed within it
};

class Rounds {
 public:
  Rounds(unsigned most, std::optional<double> max_downtime)
      : most_(most), max_downtime_(max_downtime) {}

  void add(const RoundCost &cost) { done_.push_back(cost); }
  size_t count() const { return done_.size(); }
  // Whether another round while the program runs shortens the stop.
  bool another() const;
  // Of a stop that follows now, in seconds. 0: no round was made.
  double predicted_downtime() const;
  // No value: the stop is short enough, or there is no limit. Otherwise why it is too long.
  std::optional<std::string> too_long() const;

 private:
  double bytes_per_second() const;
  u64 last_difference() const;
  double rate() const;
  double expected_difference() const;
  bool writes_to_same_memory() const;

  unsigned most_;
  std::optional<double> max_downtime_;
  std::vector<RoundCost> done_;
};

}  // namespace ckpt::tools
