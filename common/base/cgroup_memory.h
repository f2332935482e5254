// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/bytes.h"

namespace ckpt {

// Bytes of host memory that this process can get before a control group (cgroups(7), version 1 or
// 2) reaches its limit: that of a batch job or a container. Files that the kernel can drop from its
// cache count as free. ~0: no limit is known. `mounts` and `membership` are for tests.
u64 memory_left_in_cgroup(const std::string &mounts = "/sys/fs/cgroup",
                          const std::string &membership = "/proc/self/cgroup");

}  // namespace ckpt
