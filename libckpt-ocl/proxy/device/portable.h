// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/proxy/device/real_devices.h"

namespace ckpt::ocl {

// `ckpt-run --portable`: the program sees only what all devices of this machine have in common: the
// smallest limits, the common extensions. Whatever it relies on then holds on each of them.
class Portable {
 public:
  explicit Portable(std::vector<RealPlatform> all) : all_(std::move(all)) {}
  // Restricts the answer to clGetDeviceInfo(param).
  void restrict_info(u32 param, Bytes &value) const;
  // Restricts the answer to clGetSupportedImageFormats.
  void restrict_formats(cl_mem_flags flags, cl_mem_object_type type, Bytes &formats) const;

 private:
  void restrict_limit(const Limit &limit, Bytes &value) const;
  std::vector<RealPlatform> all_;
};

}  // namespace ckpt::ocl
