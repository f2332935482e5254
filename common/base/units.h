// SPDX-License-Identifier: Apache-2.0
//
// Quantities in the form that people read.
#pragma once

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

}  // namespace ckpt
