// SPDX-License-Identifier: Apache-2.0
//
// A list of indices or prefixes of UUIDs ("GPU-68967ae6"). It ends at the first word that names no
// device (CUDA C++ Programming Guide, "CUDA Environment Variables").
#include "softcuda/driver/state/visible_devices.h"

#include <cstdlib>
#include <sstream>

#include "softcuda/broker/client.h"

namespace ckpt::softcuda::driver {
namespace {

bool designates(const std::string &word, size_t index, const CUuuid &uuid) {
  if (word == std::to_string(index)) return true;
  if (!word.starts_with("GPU-")) return false;
  std::string digits, wanted;
  for (char b : uuid.bytes) digits += fmt::format("{:02x}", static_cast<u8>(b));
  for (char c : word.substr(4))
    if (c != '-') wanted += c;
  return !wanted.empty() && digits.starts_with(wanted);
}

}  // namespace

std::vector<u32> visible_devices(const std::vector<broker::DeviceInfo> &devices) {
  std::vector<u32> places;
  const char *set = std::getenv("CUDA_VISIBLE_DEVICES");
  if (set == nullptr) {
    for (u32 i = 0; i < devices.size(); ++i) places.push_back(i);
    return places;
  }
  std::istringstream in(set);
  for (std::string word; std::getline(in, word, ',');) {
    size_t before = places.size();
    for (u32 i = 0; i < devices.size() && places.size() == before; ++i) {
      CUuuid uuid{};
      std::memcpy(uuid.bytes, devices[i].uuid.data(), sizeof uuid.bytes);
      if (designates(word, i, uuid)) places.push_back(i);
    }
    if (places.size() == before) break;
  }
  return places;
}

}  // namespace ckpt::softcuda::driver
