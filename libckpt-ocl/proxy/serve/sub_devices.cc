// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/server.h"

namespace ckpt::ocl {
namespace {

struct Division {
  cl_device_id device = nullptr;
  std::vector<cl_device_partition_property> properties;
  bool whole = false;        // the device stands for each sub-device if it cannot be divided
  std::vector<u64> numbers;  // of the sub-devices; 0: not needed
};

Division read_division(Server &s, Reader &r) {
  Division d;
  d.device = s.objects.get<cl_device_id>(Kind::Device, r.get<u64>());
  u32 n = r.get<u32>();
  for (u32 i = 0; i < n && r.ok(); i++) d.properties.push_back(r.get<i64>());
  bool ended = !d.properties.empty() && d.properties.back() == 0;
  d.properties.insert(d.properties.end(), 2, 0);  // some drivers read beyond the end of the list
  if (!ended) d.device = nullptr;
  d.whole = r.get<u8>() != 0;
  n = r.get<u32>();
  for (u32 i = 0; i < n && r.ok(); i++) d.numbers.push_back(r.get<u64>());
  return d;
}

// A driver that advertises no kind of partition may lack the function (rusticl of Mesa 22.3.6).
bool can_divide(cl_device_id d) {
  cl_device_partition_property kinds[8] = {};
  return ::clGetDeviceInfo(d, CL_DEVICE_PARTITION_PROPERTIES, sizeof kinds, kinds, nullptr) ==
             CL_SUCCESS &&
         kinds[0] != 0;
}

cl_int count_parts(const Division &d, cl_uint &count) {
  if (!can_divide(d.device)) return CL_INVALID_VALUE;
  return ::clCreateSubDevices(d.device, d.properties.data(), 0, nullptr, &count);
}

cl_int divide(const Division &d, std::vector<cl_device_id> &parts) {
  cl_uint count = 0;
  if (cl_int r = count_parts(d, count); r != CL_SUCCESS) return r;
  parts.resize(count);
  return ::clCreateSubDevices(d.device, d.properties.data(), count, parts.data(), nullptr);
}

}  // namespace

void sub_devices(Server &s, const CommandHeader &h, Reader r) {
  Division d = read_division(s, r);
  if (!r.ok() || !d.device) return s.reply(h, CL_INVALID_VALUE);
  if (d.numbers.empty()) {
    cl_uint count = 0;
    cl_int status = count_parts(d, count);
    return s.reply(h, status, view(&count, sizeof count));
  }
  std::vector<cl_device_id> parts;
  cl_int status = divide(d, parts);
  bool enough = status == CL_SUCCESS && parts.size() >= d.numbers.size();
  if (!enough && !d.whole) return s.reply(h, status ? status : CL_DEVICE_PARTITION_FAILED);
  for (size_t i = 0; i < d.numbers.size(); i++)
    if (d.numbers[i] != 0) s.objects.put(Kind::Device, d.numbers[i], enough ? parts[i] : d.device);
  for (size_t i = 0; i < parts.size(); i++)
    if (!enough || i >= d.numbers.size() || d.numbers[i] == 0) ::clReleaseDevice(parts[i]);
  u32 count = static_cast<u32>(d.numbers.size());
  s.reply(h, CL_SUCCESS, view(&count, sizeof count));
}

}  // namespace ckpt::ocl
