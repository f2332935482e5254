// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/proxy/device/real_devices.h"

namespace ckpt::ocl {

// `ckpt-run --portable`: a limit is the least, and the extensions are those, of all devices of this
// machine, so that whatever the program arranges itself by holds on each of them.
class Portable {
 public:
  explicit Portable(std::vector<RealPlatform> all) : all_(std::move(all)) {}
  // Lessens the answer to clGetDeviceInfo(param).
  void restrict_info(u32 param, Bytes &value) const;
  // Lessens the answer to clGetSupportedImageFormats.
  void restrict_formats(cl_mem_flags flags, cl_mem_object_type type, Bytes &formats) const;

 private:
  void restrict_limit(const Limit &limit, Bytes &value) const;
  std::vector<RealPlatform> all_;
};

}  // namespace ckpt::ocl
