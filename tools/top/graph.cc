// SPDX-License-Identifier: Apache-2.0
#include "tools/top/graph.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "common/base/bytes.h"
#include "common/base/json_fields.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

// No terminal is wider.
constexpr size_t kMostBars = 1000;
constexpr const char *kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr const char *kAscii[] = {"_", ".", ":", "-", "=", "+", "*", "#"};

double used_share(const json &gpu) {
  u64 total = json_value(gpu, "total_bytes", u64{0});
  u64 free = std::min(json_value(gpu, "free_bytes", u64{0}), total);
  return total == 0 ? 0 : static_cast<double>(total - free) / static_cast<double>(total);
}

std::optional<double> busy_share(const json &gpu) {
  if (!gpu.contains("utilization")) return {};
  return std::clamp(json_value(gpu, "utilization", 0.0), 0.0, 1.0);
}

void push(std::deque<std::optional<double>> &bars, std::optional<double> share) {
  bars.push_back(share);
  if (bars.size() > kMostBars) bars.pop_front();
}

}  // namespace

void UsageGraph::add(const json &status) {
  std::map<std::string, Gpu> now;
  for (const json &gpu : json_list(status, "gpus")) {
    const std::string uuid = json_string(gpu, "uuid");
    if (now.contains(uuid)) continue;
    Gpu &bars = now[uuid] = std::move(gpus_[uuid]);
    push(bars.memory, used_share(gpu));
    push(bars.kernels, busy_share(gpu));
  }
  gpus_ = std::move(now);
}

std::string UsageGraph::bar(std::optional<double> share) const {
  if (!share) return " ";
  size_t level = std::min<size_t>(7, static_cast<size_t>(*share * 8));
  return utf8_ ? kBlocks[level] : kAscii[level];
}

std::string UsageGraph::line(const std::string &uuid, Of what, size_t columns) const {
  std::string out;
  auto gpu = gpus_.find(uuid);
  if (gpu == gpus_.end()) return out;
  const Bars &bars = what == Of::Memory ? gpu->second.memory : gpu->second.kernels;
  bool any = false;
  for (size_t i = bars.size() - std::min(bars.size(), columns); i < bars.size(); i++) {
    any = any || bars[i];
    out += bar(bars[i]);
  }
  return any ? out : "";
}

bool has_utf8_locale() {
  for (const char *name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char *value = std::getenv(name);
    if (!value || !*value) continue;
    std::string locale = value;
    for (char &c : locale) c = static_cast<char>(::tolower(static_cast<unsigned char>(c)));
    return locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

}  // namespace ckpt::tools
