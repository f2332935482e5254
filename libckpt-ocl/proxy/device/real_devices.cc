// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/device/real_devices.h"

#include <xxhash.h>

#include <array>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "common/base/gpu.h"
#include "libckpt-ocl/proxy/device/drivers.h"
#include "libckpt-ocl/proxy/device/host_addresses.h"

namespace ckpt::ocl {
namespace {

template <class Ask>
std::string text_of(Ask ask) {
  size_t size = 0;
  if (ask(0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string s(size, '\0');
  if (ask(size, s.data(), nullptr) != CL_SUCCESS) return {};
  s.resize(s.find('\0') == std::string::npos ? size : s.find('\0'));
  return s;
}

bool chosen(const std::string &keys, const RealPlatform &p, const RealDevice &d) {
  std::string uuid;
  std::istringstream words(keys);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == d.key) return true;
    bool number = word.find_first_not_of("0123456789.") == std::string::npos;
    if (!number && uuid.empty()) uuid = plain_uuid(uuid_of(p, d));
    if (!number && plain_uuid(word) == uuid) return true;
  }
  return keys.empty();
}

std::vector<cl_device_id> devices_of(cl_platform_id p) {
  cl_uint n = 0;
  if (::clGetDeviceIDs(p, CL_DEVICE_TYPE_ALL, 0, nullptr, &n) != CL_SUCCESS) return {};
  std::vector<cl_device_id> ids(n);
  if (n > 0 && ::clGetDeviceIDs(p, CL_DEVICE_TYPE_ALL, n, ids.data(), nullptr) != CL_SUCCESS)
    return {};
  return ids;
}

std::string type_name(cl_device_type type) {
  if (type & CL_DEVICE_TYPE_GPU) return "gpu";
  if (type & CL_DEVICE_TYPE_ACCELERATOR) return "accelerator";
  if (type & CL_DEVICE_TYPE_CPU) return "cpu";
  return "custom";
}

std::string as_uuid(u64 high, u64 low) {
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff,
                     high & 0xffff, low >> 48, low & 0xffffffffffff);
}

// The bytes of a UUID are in network order (RFC 9562); NVML and CUDA print them so, too.
u64 big_endian(const std::array<cl_uchar, CL_UUID_SIZE_KHR> &bytes, size_t at) {
  u64 word = 0;
  for (size_t i = 0; i < sizeof word; i++) word = word << 8 | bytes[at + i];
  return word;
}

std::string uuid_from_name(const RealPlatform &p, const RealDevice &d) {
  std::string made = fmt::format("{}\n{}\n{}", p.name, d.name, d.nth);
  XXH128_hash_t h = XXH3_128bits(made.data(), made.size());
  // Version 8: custom (RFC 9562, section 5.8).
  return as_uuid((h.high64 & ~u64{0xf000}) | 0x8000, (h.low64 & ~(u64{3} << 62)) | (u64{2} << 62));
}

}  // namespace

std::string uuid_of(const RealPlatform &p, const RealDevice &d) {
  std::array<cl_uchar, CL_UUID_SIZE_KHR> own{};
  bool has =
      device_text(d.id, CL_DEVICE_EXTENSIONS).find("cl_khr_device_uuid") != std::string::npos;
  if (!has ||
      ::clGetDeviceInfo(d.id, CL_DEVICE_UUID_KHR, own.size(), own.data(), nullptr) != CL_SUCCESS)
    return uuid_from_name(p, d);
  return as_uuid(big_endian(own, 0), big_endian(own, 8));
}

std::string platform_text(cl_platform_id platform, cl_platform_info param) {
  return text_of(
      [&](size_t n, void *v, size_t *r) { return ::clGetPlatformInfo(platform, param, n, v, r); });
}

std::string device_text(cl_device_id device, cl_device_info param) {
  return text_of(
      [&](size_t n, void *v, size_t *r) { return ::clGetDeviceInfo(device, param, n, v, r); });
}

u64 device_number(cl_device_id device, cl_device_info param) {
  u64 v = 0;
  return ::clGetDeviceInfo(device, param, sizeof v, &v, nullptr) == CL_SUCCESS ? v : 0;
}

std::vector<cl_device_id> devices_in(cl_context context) {
  size_t bytes = 0;
  if (::clGetContextInfo(context, CL_CONTEXT_DEVICES, 0, nullptr, &bytes) != CL_SUCCESS) return {};
  std::vector<cl_device_id> ids(bytes / sizeof(cl_device_id));
  if (ids.empty() ||
      ::clGetContextInfo(context, CL_CONTEXT_DEVICES, bytes, ids.data(), nullptr) != CL_SUCCESS)
    return {};
  return ids;
}

LimitValue device_limit(cl_device_id device, const Limit &limit) {
  if (limit.param == CL_DEVICE_SVM_CAPABILITIES) return {svm_capabilities(device)};
  std::byte answer[16 * sizeof(u64)];  // more dimensions than any device has
  size_t size = 0;
  if (::clGetDeviceInfo(device, limit.param, sizeof answer, answer, &size) != CL_SUCCESS) return {};
  return limit_value({answer, size});
}

std::vector<RealPlatform> real_platforms(const std::string &keys) {
  cl_uint n = 0;
  if (::clGetPlatformIDs(0, nullptr, &n) != CL_SUCCESS) return {};
  std::vector<cl_platform_id> ids(n);
  if (::clGetPlatformIDs(n, ids.data(), nullptr) != CL_SUCCESS) return {};
  std::vector<std::string> sources = sources_of(ids);
  std::vector<RealPlatform> all;
  for (size_t i = 0; i < ids.size(); i++) {
    std::optional<size_t> number = platform_number(sources[i], i);
    if (!number || platform_text(ids[i], CL_PLATFORM_ICD_SUFFIX_KHR) == "CKPT") continue;
    RealPlatform p{ids[i], platform_text(ids[i], CL_PLATFORM_NAME), {}, sources[i]};
    std::map<std::string, u32> seen;
    std::vector<cl_device_id> devices = devices_of(ids[i]);
    for (size_t k = 0; k < devices.size(); k++) {
      RealDevice d{devices[k], fmt::format("{}.{}", *number, k),
                   device_text(devices[k], CL_DEVICE_NAME),
                   device_number(devices[k], CL_DEVICE_TYPE), 0};
      d.nth = seen[d.name]++;
      if (chosen(keys, p, d)) p.devices.push_back(d);
    }
    if (!p.devices.empty()) all.push_back(p);
  }
  return all;
}

nlohmann::json describe(const RealPlatform &platform, const RealDevice &device) {
  return {{"api", "ocl"},
          {"id", device.key},
          {"platform", platform.name},
          {"platform_source", platform.source},
          {"name", device.name},
          {"type", type_name(device.type)},
          {"driver", device_text(device.id, CL_DRIVER_VERSION)},
          {"version", device_text(device.id, CL_DEVICE_VERSION)},
          {"memory_bytes", device_number(device.id, CL_DEVICE_GLOBAL_MEM_SIZE)},
          {"uuid", uuid_of(platform, device)}};
}

}  // namespace ckpt::ocl
