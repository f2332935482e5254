// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/proxy/check.h"

#include <algorithm>
#include <list>

namespace ckpt::cuda {
namespace {

using nlohmann::json;

struct Old {
  std::string name;
  std::string uuid;
  int capability = 0;
  bool used = false;
  unsigned long long bytes = 0;
};

std::vector<Old> read_needs(const json &needs) {
  std::vector<Old> all;
  auto devices = needs.find("devices");
  if (devices == needs.end() || !devices->is_array()) return all;
  for (const json &d : *devices) {
    if (!d.is_object()) continue;
    all.push_back({d.value("name", ""), d.value("uuid", ""), d.value("capability", 0),
                   d.value("used", false), d.value("bytes", 0ULL)});
  }
  // Those that are used come first: the others take what is left.
  std::stable_partition(all.begin(), all.end(), [](const Old &o) { return o.used; });
  return all;
}

std::string reason_against(const Old &o, const RealDevice &d) {
  if (o.capability != d.capability)
    return fmt::format(
        "\"{}\" (compute capability {}.{}) cannot stand for \"{}\" ({}.{}): a CUDA driver restores "
        "a process on devices of the same chip type only",
        d.name, d.capability / 10, d.capability % 10, o.name, o.capability / 10, o.capability % 10);
  if (o.bytes > d.free_bytes)
    return fmt::format("the program has {} MiB on \"{}\", and {} MiB are free on {}", o.bytes >> 20,
                       o.name, d.free_bytes >> 20, d.uuid);
  return {};
}

using Left = std::list<RealDevice>;

// The device itself; else, of those that it may have, the first.
Left::iterator pick(const Old &o, Left &left, const std::vector<std::string> &chosen) {
  auto may = [&](const RealDevice &d) {
    return !o.used || chosen.empty() || std::ranges::find(chosen, d.uuid) != chosen.end();
  };
  auto itself = std::ranges::find(left, o.uuid, &RealDevice::uuid);
  if (itself != left.end() && may(*itself)) return itself;
  return std::ranges::find_if(left, may);
}

// Chosen devices in the order in which they were named, the others behind them.
Left in_order(const std::vector<RealDevice> &offered, const std::vector<std::string> &chosen) {
  Left left;
  for (const std::string &uuid : chosen)
    for (const RealDevice &d : offered)
      if (d.uuid == uuid) left.push_back(d);
  for (const RealDevice &d : offered)
    if (std::ranges::find(chosen, d.uuid) == chosen.end()) left.push_back(d);
  return left;
}

}  // namespace

Verdict check_needs(const json &needs, const std::vector<RealDevice> &offered,
                    const std::vector<std::string> &chosen) {
  Verdict v;
  Left left = in_order(offered, chosen);
  for (const Old &o : read_needs(needs)) {
    auto d = pick(o, left, chosen);
    if (d == left.end()) {
      if (o.used)
        v.reasons.push_back(
            fmt::format("there is no CUDA device left for \"{}\" ({})", o.name, o.uuid));
      continue;
    }
    if (std::string why = o.used ? reason_against(o, *d) : ""; !why.empty())
      v.reasons.push_back(std::move(why));
    v.map.emplace_back(o.uuid, d->uuid);
    left.erase(d);
  }
  return v;
}

}  // namespace ckpt::cuda
