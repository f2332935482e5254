// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/device/portable.h"

#include <algorithm>
#include <sstream>

#include "libckpt-ocl/device_limits.h"
#include "libckpt-ocl/proxy/serve/images.h"

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

// Keeps the entries of a list of T that `other` has, too, as `same` compares them.
template <class T, class Same>
void keep_common_entries(const Bytes &other, Bytes &value, Same same) {
  auto at = [](const Bytes &list, size_t i) {
    T v;
    std::memcpy(&v, list.data() + i * sizeof v, sizeof v);
    return v;
  };
  Bytes kept;
  for (size_t i = 0; i < value.size() / sizeof(T); i++)
    for (size_t k = 0; k < other.size() / sizeof(T); k++)
      if (same(at(value, i), at(other, k))) {
        kept.insert(kept.end(), value.begin() + i * sizeof(T), value.begin() + (i + 1) * sizeof(T));
        break;
      }
  value = std::move(kept);
}

bool same_version(const cl_name_version &a, const cl_name_version &b) {
  return a.version == b.version && std::strncmp(a.name, b.name, sizeof a.name) == 0;
}
bool same_name(const cl_name_version &a, const cl_name_version &b) {
  return std::strncmp(a.name, b.name, sizeof a.name) == 0;
}

// The device's answer; empty if it does not know the query (a device before OpenCL 3.0).
Bytes answer_of(cl_device_id device, u32 param) {
  size_t size = 0;
  if (::clGetDeviceInfo(device, param, 0, nullptr, &size) != CL_SUCCESS) return {};
  Bytes value(size);
  if (::clGetDeviceInfo(device, param, size, value.data(), nullptr) != CL_SUCCESS) return {};
  return value;
}

void keep_common_bits(const Bytes &other, Bytes &value) {
  for (size_t i = 0; i < std::min(value.size(), other.size()); i++) value[i] &= other[i];
}

// Restricts the answer of one device to what another one has, too.
void restrict_to(cl_device_id d, u32 param, Bytes &value) {
  if (param == CL_DEVICE_EXTENSIONS || param == CL_DEVICE_IL_VERSION)
    return keep_common(device_text(d, param), value);
  Bytes other = answer_of(d, param);
  if (other.empty()) return;  // an older device; the check compiles the kernels for it
  switch (param) {
    case CL_DEVICE_ILS_WITH_VERSION:
    case CL_DEVICE_OPENCL_C_ALL_VERSIONS:
      return keep_common_entries<cl_name_version>(other, value, same_version);
    case CL_DEVICE_EXTENSIONS_WITH_VERSION:
    case CL_DEVICE_OPENCL_C_FEATURES:
      return keep_common_entries<cl_name_version>(other, value, same_name);
    case CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES:
    case CL_DEVICE_ATOMIC_FENCE_CAPABILITIES: return keep_common_bits(other, value);
    default: return;
  }
}

}  // namespace

void Portable::restrict_info(u32 param, Bytes &value) const {
  static constexpr Limit kDoubles{CL_DEVICE_DOUBLE_FP_CONFIG, "", Limit::Rule::AtLeast};
  if (const Limit *limit = param == kDoubles.param ? &kDoubles : find_limit(param))
    return restrict_limit(*limit, value);
  for (const RealPlatform &p : all_)
    for (const RealDevice &d : p.devices) restrict_to(d.id, param, value);
}

void Portable::restrict_limit(const Limit &limit, Bytes &value) const {
  LimitValue least = limit_value(value);
  for (const RealPlatform &p : all_)
    for (const RealDevice &d : p.devices)
      merge_limit(limit, false, least, device_limit(d.id, limit));
  put_value(least, value);
}

void Portable::restrict_formats(cl_mem_flags flags, cl_mem_object_type type, Bytes &formats) const {
  auto same = [](const cl_image_format &a, const cl_image_format &b) {
    return a.image_channel_order == b.image_channel_order &&
           a.image_channel_data_type == b.image_channel_data_type;
  };
  for (const RealPlatform &p : all_)
    for (const RealDevice &d : p.devices) {
      cl_int status;
      cl_context context = ::clCreateContext(nullptr, 1, &d.id, nullptr, nullptr, &status);
      Bytes theirs;
      if (context) image_formats(context, flags, type, theirs);
      keep_common_entries<cl_image_format>(theirs, formats, same);
      release_handle(Kind::Context, context);
    }
}

}  // namespace ckpt::ocl
