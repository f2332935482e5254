// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/lifecycle/restore_map.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "softcuda/driver/state/strict.h"

namespace ckpt::softcuda::driver {
namespace {

using Uuid = std::array<u8, 16>;

Uuid bytes_of(const CUuuid &uuid) {
  Uuid bytes{};
  std::memcpy(bytes.data(), uuid.bytes, bytes.size());
  return bytes;
}

std::set<Uuid> uuids_of(const std::vector<broker::DeviceInfo> &devices) {
  std::set<Uuid> all;
  for (const broker::DeviceInfo &d : devices) all.insert(d.uuid);
  return all;
}

// "A mapping must cover every GPU visible to the kernel-mode driver" (NVIDIA/cuda-python,
// test_checkpoint.py), "it must contain every checkpointed GPU" (CUDA driver API).
bool is_complete(const std::vector<DevicePair> &pairs,
                 const std::vector<broker::DeviceInfo> &before,
                 const std::vector<broker::DeviceInfo> &now) {
  std::set<Uuid> old = uuids_of(before), offered = uuids_of(now);
  for (const DevicePair &p : pairs)
    if (old.erase(bytes_of(p.from)) == 0 || offered.erase(bytes_of(p.to)) == 0) return false;
  return old.empty();
}

bool has_context(const Device &d) {
  for (Context *c : process().contexts.all())
    if (c->device == &d) return true;
  return false;
}

}  // namespace

CUresult target_devices(const std::vector<DevicePair> &pairs,
                        const std::vector<broker::DeviceInfo> &before,
                        const std::vector<broker::DeviceInfo> &now, std::vector<u32> &places) {
  REQUIRE(pairs.empty() || driver_version() >= kFirstVersionWithMaps, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(pairs.empty() || !strict() || is_complete(pairs, before, now), CUDA_ERROR_INVALID_VALUE);
  for (const std::unique_ptr<Device> &d : process().devices) {
    Uuid wanted = bytes_of(d->uuid);
    bool mapped = pairs.empty();
    for (const DevicePair &p : pairs) {
      if (bytes_of(p.from) != bytes_of(d->uuid)) continue;
      wanted = bytes_of(p.to);
      mapped = true;
    }
    REQUIRE(mapped || !has_context(*d), CUDA_ERROR_INVALID_VALUE);
    size_t i = 0;
    while (i < now.size() && wanted != now[i].uuid) ++i;
    REQUIRE(i < now.size() || !has_context(*d), CUDA_ERROR_INVALID_DEVICE);
    u32 place = mapped && i < now.size() ? static_cast<u32>(i) : kNoDevice;
    bool taken = place != kNoDevice && std::ranges::find(places, place) != places.end();
    REQUIRE(!taken, CUDA_ERROR_INVALID_VALUE);
    places.push_back(place);
  }
  return CUDA_SUCCESS;
}

}  // namespace ckpt::softcuda::driver
