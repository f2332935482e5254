// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/portable.h"

#include <algorithm>
#include <sstream>

#include "libckpt-ocl/device_limits.h"

namespace ckpt::ocl {
namespace {

void put_value(const LimitValue &v, Bytes &value) {
  for (size_t i = 0; i < v.size(); i++)
    std::memcpy(value.data() + i * sizeof(u64), &v[i],
                std::min(sizeof(u64), value.size() - i * sizeof(u64)));
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
  const Limit doubles{CL_DEVICE_DOUBLE_FP_CONFIG, "", Limit::Rule::AtLeast};
  const Limit *limit = param == doubles.param ? &doubles : find_limit(param);
  if (!limit && param != CL_DEVICE_EXTENSIONS) return;
  LimitValue least = limit_value(value);
  for (const RealPlatform &p : all_)
    for (const RealDevice &d : p.devices)
      if (limit)
        merge_limit(*limit, false, least, device_limit(d.id, *limit));
      else
        keep_common(device_text(d.id, param), value);
  if (limit) put_value(least, value);
}

}  // namespace ckpt::ocl
