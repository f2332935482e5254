// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

namespace ckpt {

// Whether NVIDIA's kernel driver is here, also under WSL.
inline bool has_nvidia_gpu() {
  return ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/dev/dxg", F_OK) == 0;
}

}  // namespace ckpt
