// SPDX-License-Identifier: Apache-2.0
#include "softcuda/broker/device_file.h"

#include <cstdlib>
#include <string_view>

#include "common/ipc/shared_memory.h"

namespace ckpt::softcuda {

bool strict() {
  static const bool kStrict = [] {
    const char *set = std::getenv("CKPT_SOFTCUDA_STRICT");
    return set != nullptr && std::string_view(set) == "1";
  }();
  return kStrict;
}

UniqueFd open_device_file(u64 bytes) {
  Result<UniqueFd> file = make_memfd("softcuda-device", bytes);
  return file ? std::move(*file) : UniqueFd();
}

void open_nvml_file() {
  constexpr u64 kBytes = 4096;
  if (strict()) g_nvml_file = open_device_file(kBytes).release();
}

bool close_nvml_file() {
  int fd = g_nvml_file.exchange(-1);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

}  // namespace ckpt::softcuda
