// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/rounds.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/units.h"

namespace ckpt::tools {
namespace {

// A round that would send more than this part of what the last one sent does not shorten the stop
// enough to be worth its load.
constexpr double kWorthwhile = 0.8;
// A restore reads the chunks, decompresses them and fills memory (docs/PERFORMANCE.md).
constexpr double kRestoredBytesPerSecond = 1e9;
constexpr double kShortest = 1e-3;  // of a time that is divided by

}  // namespace

double Rounds::bytes_per_second() const {
  u64 bytes = 0;
  double seconds = kShortest;
  for (const RoundCost &r : done_) {
    bytes += r.sent_bytes;
    seconds += r.send_seconds;
  }
  return std::max(1.0, static_cast<double>(bytes) / seconds);
}

// Round 0 has sent everything, which says nothing about what changes.
u64 Rounds::last_difference() const { return done_.size() < 2 ? 0 : done_.back().sent_bytes; }

// Bytes that the program changes in a second, as they are stored.
double Rounds::rate() const {
  return static_cast<double>(last_difference()) / std::max(kShortest, done_.back().period_seconds);
}

double Rounds::expected_difference() const {
  const RoundCost &last = done_.back();
  return std::min(static_cast<double>(last_difference()),
                  rate() * (last.dump_seconds + last.rest_seconds));
}

// The last difference is less smaller than the one before than half of what its time is shorter.
bool Rounds::writes_to_same_memory() const {
  if (done_.size() < 3) return false;
  const RoundCost &last = done_.back(), &before = done_[done_.size() - 2];
  double shorter = last.period_seconds / std::max(kShortest, before.period_seconds);
  return static_cast<double>(last.sent_bytes) >
         static_cast<double>(before.sent_bytes) * (1 + shorter) / 2;
}

double Rounds::predicted_downtime() const {
  if (done_.empty()) return 0;
  const RoundCost &last = done_.back();
  double send = expected_difference() / bytes_per_second();
  double restore =
      last.check_seconds + static_cast<double>(last.raw_bytes) / kRestoredBytesPerSecond;
  return std::max(last.dump_seconds, send) + restore;
}

bool Rounds::another() const {
  if (done_.size() >= most_) return false;
  if (done_.size() < 2) return true;
  if (max_downtime_ && predicted_downtime() <= *max_downtime_) return false;
  if (writes_to_same_memory()) return false;
  return expected_difference() < kWorthwhile * static_cast<double>(last_difference());
}

std::optional<std::string> Rounds::too_long() const {
  if (!max_downtime_ || done_.empty() || predicted_downtime() <= *max_downtime_)
    return std::nullopt;
  return fmt::format(
      "the program would be stopped for about {:.1f} s, longer than --max-downtime {:.1f}: it "
      "changes {}/s, and the link carries {}/s",
      predicted_downtime(), *max_downtime_, human_bytes(static_cast<u64>(rate())),
      human_bytes(static_cast<u64>(bytes_per_second())));
}

}  // namespace ckpt::tools
