// SPDX-License-Identifier: Apache-2.0
//
// The devices that this process sees.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::cuda {

struct DeviceInfo {
  int number = 0;
  std::string name;
  std::string uuid;  // as uuid_text() writes it
  u64 memory_bytes = 0;
  int capability = 0;  // ten times the compute capability: 90 for 9.0
};
// Not between driver_checkpoint() and driver_restore(), when the driver answers no call.
std::vector<DeviceInfo> visible_devices();

}  // namespace ckpt::cuda
