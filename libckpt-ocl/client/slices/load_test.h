// SPDX-License-Identifier: Apache-2.0
//
// The load test of a guest: the time of an empty kernel (docs/PAPERS.md, CM-3).
#pragma once

#include <vector>

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// The longest time on the devices of these queues, in nanoseconds; 0: it could not be run. The
// caller is inside the gate and holds no lock.
double time_empty_kernels(const std::vector<Ref<Queue>> &queues);

}  // namespace ckpt::ocl
