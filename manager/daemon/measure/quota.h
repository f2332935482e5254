// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "manager/daemon/measure/meter.h"

namespace ckpt::manager {

// A meter that shows of each GPU no more than `bytes`; what is in use there counts, whoever uses
// it.
std::unique_ptr<Meter> with_quota(std::unique_ptr<Meter> meter, u64 bytes);

}  // namespace ckpt::manager
