// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/proxy/device_check.h"

#include <algorithm>
#include <list>

#include "common/base/json_fields.h"
#include "common/base/units.h"

namespace ckpt::cuda {
namespace {

using nlohmann::json;

// A device of the process that is to be restored.
struct OldDevice {
  std::string name;
  std::string uuid;
  int capability = 0;
  bool used = false;
  unsigned long long bytes = 0;
};

// Devices that are used come first: the others take what is left.
std::vector<OldDevice> read_requirements(const json &requirements) {
  std::vector<OldDevice> all;
  for (const json &d : json_list(requirements, "devices"))
    all.push_back({json_string(d, "name"), json_string(d, "uuid"), json_value(d, "capability", 0),
                   json_value(d, "used", false),
                   json_value(d, "bytes", u64{0}) + json_value(d, "driver_bytes", u64{0})});
  std::stable_partition(all.begin(), all.end(), [](const OldDevice &o) { return o.used; });
  return all;
}

std::string reason_against(const OldDevice &o, const RealDevice &d) {
  if (o.capability != d.capability)
    return fmt::format(
        "\"{}\" (compute capability {}.{}) cannot stand for \"{}\" ({}.{}): a CUDA driver restores "
        "a process on devices of the same chip type only",
        d.name, d.capability / 10, d.capability % 10, o.name, o.capability / 10, o.capability % 10);
  if (o.bytes > d.free_bytes)
    return fmt::format("the program has {} on \"{}\", and only {} are free on {}",
                       mebibytes_needed(o.bytes), o.name, mebibytes(d.free_bytes), d.uuid);
  return {};
}

using Remaining = std::list<RealDevice>;

Remaining::iterator pick(const OldDevice &o, Remaining &remaining,
                         const std::vector<std::string> &chosen) {
  auto may = [&](const RealDevice &d) {
    return !o.used || chosen.empty() || std::ranges::find(chosen, d.uuid) != chosen.end();
  };
  auto itself = std::ranges::find(remaining, o.uuid, &RealDevice::uuid);
  if (itself != remaining.end() && may(*itself)) return itself;
  return std::ranges::find_if(remaining, may);
}

// Chosen devices in the order of the choice, then the others.
Remaining in_order(const std::vector<RealDevice> &offered, const std::vector<std::string> &chosen) {
  Remaining remaining;
  for (const std::string &uuid : chosen)
    for (const RealDevice &d : offered)
      if (d.uuid == uuid) remaining.push_back(d);
  for (const RealDevice &d : offered)
    if (std::ranges::find(chosen, d.uuid) == chosen.end()) remaining.push_back(d);
  return remaining;
}

}  // namespace

DeviceCheck check_devices(const json &requirements, const std::vector<RealDevice> &offered,
                          const std::vector<std::string> &chosen) {
  DeviceCheck check;
  Remaining remaining = in_order(offered, chosen);
  for (const OldDevice &o : read_requirements(requirements)) {
    auto d = pick(o, remaining, chosen);
    if (d == remaining.end()) {
      if (o.used)
        check.reasons.push_back(
            fmt::format("there is no CUDA device left for \"{}\" ({})", o.name, o.uuid));
      continue;
    }
    if (std::string why = o.used ? reason_against(o, *d) : ""; !why.empty())
      check.reasons.push_back(std::move(why));
    check.map.emplace_back(o.uuid, d->uuid);
    remaining.erase(d);
  }
  return check;
}

void complete_check(DeviceCheck &check, const json &requirements,
                    const std::vector<std::string> &gpus, int driver_version) {
  std::vector<std::string> before = json_strings(json_member(requirements, "gpus"));
  Result<DeviceMap> complete = complete_map(check.map, before, gpus);
  if (!complete) {
    check.reasons.push_back(complete.error().text());
    return;
  }
  check.map = std::move(*complete);
  if (std::string why = reason_against_map(check.map, driver_version); !why.empty())
    check.reasons.push_back(std::move(why));
}

}  // namespace ckpt::cuda
