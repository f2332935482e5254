// SPDX-License-Identifier: Apache-2.0
//
// The real devices of this machine, as the ICD loader shows them to the proxy.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "libckpt-ocl/device_limits.h"
#include "ring/table.h"

namespace ckpt::ocl {

struct RealDevice {
  cl_device_id id = nullptr;
  std::string key;  // "0.1": the second device of the first platform
  std::string name;
  cl_device_type type = 0;
  u32 nth = 0;  // among the platform's devices of that name
};

struct RealPlatform {
  cl_platform_id id = nullptr;
  std::string name;
  std::vector<RealDevice> devices;
  std::string source = {};  // drivers.h
};

// All platforms with their devices, or only those that `keys` names ("0.1,2.0", or UUIDs). Loads
// every driver that the ICD loader knows, except libckpt-ocl itself.
std::vector<RealPlatform> real_platforms(const std::string &keys = {});

// The driver's own UUID (cl_khr_device_uuid), or one computed from the names of platform and
// device.
std::string uuid_of(const RealPlatform &platform, const RealDevice &device);
std::string platform_text(cl_platform_id platform, cl_platform_info param);
std::string device_text(cl_device_id device, cl_device_info param);
u64 device_number(cl_device_id device, cl_device_info param);
std::vector<cl_device_id> devices_in(cl_context context);
// What a program can rely on there; that is not always the driver's answer.
LimitValue device_limit(cl_device_id device, const Limit &limit);

// One entry of `ckpt-run --list-devices`.
nlohmann::json describe(const RealPlatform &platform, const RealDevice &device);

}  // namespace ckpt::ocl
