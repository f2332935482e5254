// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/devices/device_map.h"

#include <algorithm>

namespace ckpt::cuda {
namespace {

using Uuids = std::vector<std::string>;

constexpr int kFirstVersionWithMaps = 13000;  // driver 580, CUDA 13.0

bool moves_nothing(const DeviceMap &map) {
  return std::ranges::all_of(map, [](const auto &pair) { return pair.first == pair.second; });
}

void remove(Uuids &from, const std::string &uuid) {
  if (auto at = std::ranges::find(from, uuid); at != from.end()) from.erase(at);
}

// Moves from `rest` to `map` what can stay where it is.
void keep_in_place(DeviceMap &map, Uuids &rest, Uuids &left) {
  for (const std::string &uuid : Uuids(rest)) {
    if (std::ranges::find(left, uuid) == left.end()) continue;
    map.emplace_back(uuid, uuid);
    remove(rest, uuid);
    remove(left, uuid);
  }
}

}  // namespace

Result<DeviceMap> complete_map(const DeviceMap &wanted, const Uuids &before, const Uuids &now) {
  if (moves_nothing(wanted)) return DeviceMap();
  if (before.empty() || now.empty()) return wanted;
  DeviceMap map = wanted;
  Uuids rest = before, left = now;
  for (auto &[from, to] : wanted) {
    remove(rest, from);
    remove(left, to);
  }
  keep_in_place(map, rest, left);
  if (rest.size() > left.size())
    return fail_with_hint(
        fmt::format("the program was checkpointed on a machine with {} GPUs, and this one has {}: "
                    "the CUDA driver restores a process only if each of those GPUs gets one here",
                    before.size(), now.size()),
        "use a machine, or a container, with at least as many GPUs");
  for (size_t i = 0; i < rest.size(); i++) map.emplace_back(rest[i], left[i]);
  return map;
}

std::string reason_against_map(const DeviceMap &map, int driver_version) {
  if (map.empty() || driver_version >= kFirstVersionWithMaps) return {};
  return fmt::format(
      "the CUDA driver (CUDA {}.{}) restores a process on the GPUs that it had, and on no others: "
      "another GPU needs driver 580 or newer",
      driver_version / 1000, driver_version % 1000 / 10);
}

}  // namespace ckpt::cuda
