// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "manager/daemon/measure/meter.h"

namespace ckpt::manager {

// A meter that shows each GPU as if it had only `bytes`. Memory of unmanaged processes counts
// against that.
std::unique_ptr<Meter> with_quota(std::unique_ptr<Meter> meter, u64 bytes);

}  // namespace ckpt::manager
