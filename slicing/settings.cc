// SPDX-License-Identifier: Apache-2.0
#include "slicing/settings.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace ckpt::slicing {
namespace {

double number(std::string_view text, double least, double most) {
  double value = std::strtod(std::string(text).c_str(), nullptr);
  return value >= least ? (value <= most ? value : most) : least;
}

void set(Settings &s, std::string_view name, std::string_view value) {
  CooperationSettings &c = s.cooperation;
  if (name == "guest") s.guest = true;
  if (name == "blocks") s.blocks = static_cast<u64>(number(value, 1, 1e15));
  if (name == "percent") s.share = number(value, 1e-9, 100) / 100;
  if (name == "ms") s.slice_ns = number(value, 0.01, 1e6) * 1e6;
  if (name == "patience") s.patience_ns = number(value, 1, 1e9) * 1e6;
  if (name == "fps") c.frames = number(value, 0.1, 1000);
  if (name == "frame") c.frame_share = number(value, 0, 0.95);
  if (name == "continuous") c.continuous_share = number(value, 0.05, 100);
  if (name == "kernels") c.kernels = static_cast<u32>(number(value, 1, 1000));
  if (name == "margin") c.margin = number(value, 0, 1000);
  if (name == "window") c.window = static_cast<u32>(number(value, 1, 1000));
  if (name == "percentile") c.percentile = number(value, 0, 1);
  if (name == "probes") c.probes = static_cast<u32>(number(value, 1, 100));
  if (name == "lows") c.lows = static_cast<u32>(number(value, 1, 1e6));
}

}  // namespace

Settings parse_settings(std::string_view text) {
  Settings s;
  s.sliced = !text.empty();
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    size_t equals = word.find('=');
    set(s, word.substr(0, equals),
        equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1));
  }
  return s;
}

u64 Settings::fixed_blocks(u64 all) const {
  if (blocks != 0 || share == 0) return blocks;
  return std::max<u64>(1, static_cast<u64>(std::ceil(share * static_cast<double>(all))));
}

const Settings &settings() {
  static const Settings *const kSettings = [] {
    const char *text = std::getenv(kSlicesVariable), *path = std::getenv(kMemoryVariable);
    auto *s = new Settings(parse_settings(text == nullptr ? "" : text));
    if (path != nullptr) s->memory_path = path;
    return s;
  }();
  return *kSettings;
}

}  // namespace ckpt::slicing
