// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace ckpt {

// Whether NVIDIA's kernel driver is loaded; /dev/dxg is its device under WSL.
inline bool has_nvidia_gpu() {
  return ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/dev/dxg", F_OK) == 0;
}

// A device's UUID in one spelling for all APIs: lower case, without the "GPU-" of NVML.
inline std::string plain_uuid(std::string uuid) {
  std::ranges::transform(uuid, uuid.begin(), [](unsigned char c) { return std::tolower(c); });
  if (uuid.starts_with("gpu-")) uuid.erase(0, 4);
  return uuid;
}

}  // namespace ckpt
