// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/portable.h"

#include <algorithm>
#include <sstream>

#include "libckpt-ocl/device_limits.h"

namespace ckpt::ocl {
namespace {

void lessen_number(u64 other, Bytes &value) {
  u64 ours = 0;
  size_t n = std::min(sizeof ours, value.size());
  std::memcpy(&ours, value.data(), n);
  ours = std::min(ours, other);
  std::memcpy(value.data(), &ours, n);
}

void keep_common(const std::string &other, Bytes &value) {
  std::string theirs = " " + other + " ", kept, word;
  std::istringstream words{std::string(text(value).substr(0, text(value).find('\0')))};
  while (words >> word)
    if (theirs.find(" " + word + " ") != std::string::npos)
      kept += (kept.empty() ? "" : " ") + word;
  ByteView b = view(kept.c_str(), kept.size() + 1);
  value.assign(b.begin(), b.end());
}

}  // namespace

void Portable::lessen(u32 param, Bytes &value) const {
  bool number = find_limit(param) || param == CL_DEVICE_DOUBLE_FP_CONFIG;
  if (!number && param != CL_DEVICE_EXTENSIONS) return;
  for (const RealPlatform &p : all_)
    for (const RealDevice &d : p.devices)
      if (number)
        lessen_number(device_number(d.id, param), value);
      else
        keep_common(device_text(d.id, param), value);
}

}  // namespace ckpt::ocl
