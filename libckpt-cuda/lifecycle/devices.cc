// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/devices.h"

#include <array>

#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/uuid.h"

namespace ckpt::cuda {
namespace {

DeviceInfo describe(int number, CUdevice d) {
  std::array<char, 256> name{};
  CUuuid uuid{};
  size_t bytes = 0;
  int major = 0, minor = 0;
  driver().cuDeviceGetName(name.data(), name.size() - 1, d);
  driver().cuDeviceGetUuid_v2(&uuid, d);
  driver().cuDeviceTotalMem_v2(&bytes, d);
  driver().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d);
  driver().cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d);
  return {number, name.data(), uuid_text(uuid), bytes, 10 * major + minor};
}

}  // namespace

std::vector<DeviceInfo> visible_devices() {
  std::vector<DeviceInfo> all;
  int count = 0;
  driver().cuDeviceGetCount(&count);
  for (int i = 0; i < count; i++) {
    CUdevice d = 0;
    if (driver().cuDeviceGet(&d, i) == CUDA_SUCCESS) all.push_back(describe(i, d));
  }
  return all;
}

}  // namespace ckpt::cuda
