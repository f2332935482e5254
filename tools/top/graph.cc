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

}  // namespace

void MemoryGraph::add(const json &status) {
  std::map<std::string, std::deque<double>> now;
  for (const json &gpu : json_list(status, "gpus")) {
    const std::string uuid = json_string(gpu, "uuid");
    if (now.contains(uuid)) continue;
    std::deque<double> &bars = now[uuid] = std::move(used_[uuid]);
    bars.push_back(used_share(gpu));
    if (bars.size() > kMostBars) bars.pop_front();
  }
  used_ = std::move(now);
}

std::string MemoryGraph::line(const std::string &uuid, size_t columns) const {
  std::string out;
  auto bars = used_.find(uuid);
  if (bars == used_.end()) return out;
  size_t left_out = bars->second.size() - std::min(bars->second.size(), columns);
  for (size_t i = left_out; i < bars->second.size(); i++) {
    size_t level = std::min<size_t>(7, static_cast<size_t>(bars->second[i] * 8));
    out += utf8_ ? kBlocks[level] : kAscii[level];
  }
  return out;
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
