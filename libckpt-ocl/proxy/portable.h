// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/proxy/real.h"

namespace ckpt::ocl {

// `ckpt-run --portable`: a limit is the least, and the extensions are those, of all devices of this
// machine, so that whatever the program arranges itself by holds on each of them.
class Portable {
 public:
  explicit Portable(std::vector<RealPlatform> all) : all_(std::move(all)) {}
  // Lessens the answer to clGetDeviceInfo(param).
  void lessen(u32 param, Bytes &value) const;

 private:
  std::vector<RealPlatform> all_;
};

}  // namespace ckpt::ocl
