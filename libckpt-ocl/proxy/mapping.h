// SPDX-License-Identifier: Apache-2.0
//
// Which real device stands for which device of a program. One rule for the check before a restore
// and for the restore itself.
#pragma once

#include <optional>

#include "common/base/result.h"
#include "libckpt-ocl/proxy/real.h"

namespace ckpt::ocl {

struct WantedDevice {
  u64 number = 0;  // the program's name for it
  bool used = false;
  std::string platform, name;
  u32 nth = 0;
};

// For every wanted device the real one, or nullptr where an unused one has no counterpart.
//
// A device that has an identical twin (platform, name, position) among `all` gets that. Otherwise,
// if `all` was narrowed by the user, the used devices that are left take the real ones in order,
// the last real one standing for all the rest.
Result<std::vector<const RealDevice *>> map_wanted(const std::vector<WantedDevice> &wanted,
                                                   const std::vector<RealPlatform> &all,
                                                   bool narrowed);

}  // namespace ckpt::ocl
