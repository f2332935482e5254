// SPDX-License-Identifier: Apache-2.0
#include "schedule/cost/move_forecast.h"

#include <algorithm>
#include <vector>

#include "schedule/cost/median_fit.h"

namespace ckpt::schedule {
namespace {

constexpr double kMega = 1e6;
// A size that is so much larger or smaller than those of all earlier moves is not between them.
constexpr double kNear = 2;
// Waits that overlap would add up to more than there is time.
constexpr double kMostLost = 0.99;

// A factor of the way, and what it is multiplied with: 25 waits a second, and their answers.
Estimate part_of_loss(std::optional<double> amount, std::optional<double> cost) {
  if (amount && *amount == 0) return Estimate::about(0);
  return amount && cost ? Estimate::about(*amount * *cost) : Estimate{};
}

std::optional<double> inverse(std::optional<double> rate) {
  return rate && *rate > 0 ? std::optional(1 / *rate) : std::nullopt;
}

SizedCost fit(std::span<const MovedBytes> earlier) {
  std::vector<SizedSample> samples;
  for (const MovedBytes &m : earlier) samples.push_back({m.bytes / kMega, 0, m.seconds, 1});
  return fit_median(samples);
}

double median_seconds(std::span<const MovedBytes> earlier) {
  std::vector<double> all;
  for (const MovedBytes &m : earlier) all.push_back(m.seconds);
  std::ranges::sort(all);
  size_t middle = all.size() / 2;
  return all.size() % 2 ? all[middle] : (all[middle - 1] + all[middle]) / 2;
}

}  // namespace

// Two sizes make a line. From one size alone it is not known how much of the time is that of the
// bytes: what is smaller takes at most as long, and what is larger at most as long for each byte.
Estimate part_of_move(std::span<const MovedBytes> earlier, double bytes, const Way &way) {
  if (earlier.empty()) {
    Estimate of_bytes = part_of_loss(bytes, inverse(way.rate));
    return way.here || !of_bytes.known() ? Estimate{} : Estimate::at_least(of_bytes.value);
  }
  auto [least, most] = std::ranges::minmax(earlier, {}, &MovedBytes::bytes);
  if (most.bytes > kNear * least.bytes) return Estimate::about(fit(earlier).at(bytes / kMega, 0));
  double seconds = median_seconds(earlier);
  if (bytes <= kNear * most.bytes && kNear * bytes >= least.bytes) return Estimate::about(seconds);
  double larger = least.bytes > 0 ? bytes / least.bytes : 1;
  if (bytes > most.bytes && least.bytes <= 0) return Estimate::at_least(seconds);
  return Estimate::at_most(seconds * std::max(1.0, larger));
}

Estimate lost_share(const Work &work, const Way &way) {
  if (way.here) return Estimate::about(0);
  Estimate lost = sum_of_parts(part_of_loss(work.waits, way.answer),
                               part_of_loss(work.bytes, inverse(way.rate)));
  return lost;
}

Forecast forecast_move(const Estimate &move, const Estimate &lost_now, const Estimate &lost_then) {
  Estimate now = lost_now;
  now.value = std::min(now.value, kMostLost);
  Forecast f;
  f.move = move;
  f.gain = now - lost_then;
  f.then = Estimate::about(1) - f.gain;
  if (!f.gain.known()) return f;
  if (f.gain.value <= 0) {
    if (f.gain.sense != Estimate::Sense::AtLeast) f.pays = Forecast::Pays::Never;
    return f;
  }
  f.after = move / f.gain;
  if (f.after.known()) f.pays = Forecast::Pays::After;
  return f;
}

}  // namespace ckpt::schedule
