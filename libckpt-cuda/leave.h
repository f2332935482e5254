// SPDX-License-Identifier: Apache-2.0
//
// The driver leaves this process and comes back: cuCheckpointProcess*, called on oneself
// (facts/cuda.md). RUNNING → lock → LOCKED → checkpoint → CHECKPOINTED → restore → LOCKED → unlock.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "agent/participant/participant.h"
#include "common/base/result.h"

namespace ckpt::cuda {

// Why the driver cannot do it; empty: it can.
std::string why_not_leave();
// All device memory that the driver still has goes into the process's own. Nothing may be running.
Result<> leave();
// From wherever leave() has come to, to running. `map`: UUIDs as device_uuid() writes them; empty:
// the same devices.
Result<> come_back(std::span<const agent::DevicePair> map);

struct DeviceFacts {
  int number = 0;
  std::string name;
  std::string uuid;
  u64 memory_bytes = 0;
  int capability = 0;  // times ten
};
// The devices that this process sees. Not while the driver is away.
std::vector<DeviceFacts> visible_devices();

}  // namespace ckpt::cuda
