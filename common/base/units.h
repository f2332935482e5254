// SPDX-License-Identifier: Apache-2.0
//
// Quantities in a readable form.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "common/base/bytes.h"

namespace ckpt {

// "1.5 GiB", "12 B"; binary units.
inline std::string human_bytes(u64 bytes) {
  constexpr const char *kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < std::size(kUnits); unit++) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

// "64 MiB", for figures that are compared with each other. What is there is rounded down, what is
// needed is rounded up: so that a need that is not met never looks as if it were.
inline std::string mebibytes(u64 bytes) { return fmt::format("{} MiB", bytes >> 20); }
inline std::string mebibytes_needed(u64 bytes) {
  return mebibytes(bytes + std::min((u64{1} << 20) - 1, ~u64{0} - bytes));
}

// What is left of an estimate: "10 s", "17 min".
inline std::string human_estimate(double seconds) {
  return seconds < 60 ? fmt::format("{:.0f} s", std::ceil(seconds))
                      : fmt::format("{:.0f} min", std::ceil(seconds / 60));
}

// "2m05s", "3h07m" or "12d03h".
inline std::string human_duration(u64 seconds) {
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  if (seconds < 86400) return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{}d{:02}h", seconds / 86400, seconds / 3600 % 24);
}

}  // namespace ckpt
