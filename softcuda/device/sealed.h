// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

namespace ckpt::softcuda {

// Whether a file in memory keeps its size, so that no mapping of it can fault.
inline bool is_sealed(int fd) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals;
}

}  // namespace ckpt::softcuda
