// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/owner/device_copies.h"

#include <map>

namespace ckpt::cuda {
namespace {

// Of the memory that is free on a device. The program may need the rest when it goes on.
constexpr u64 kShareNumerator = 3, kShareDenominator = 4;

u64 room_on(const OwnerDriver &driver) {
  size_t free = 0, total = 0;
  if (driver.cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS) return 0;
  return free / kShareDenominator * kShareNumerator;
}

}  // namespace

size_t make_room_on_device(const OwnerDriver &driver, std::span<DueCopy> copies) {
  std::map<CUcontext, u64> rooms;
  size_t first = copies.size();
  for (; first > 0; first--) {
    DueCopy &c = copies[first - 1];
    if (driver.cuCtxSetCurrent(c.context) != CUDA_SUCCESS) break;
    auto [room, is_new] = rooms.try_emplace(c.context, 0);
    if (is_new) room->second = room_on(driver);
    if (c.bytes > room->second) break;
    if (driver.cuMemAlloc_v2(&c.device_copy, c.bytes) != CUDA_SUCCESS) break;
    room->second -= c.bytes;
  }
  return first;
}

}  // namespace ckpt::cuda
