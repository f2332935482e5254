// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "common/base/result.h"

namespace ckpt::ocl {

// Sends the ledger to a new proxy, in the order of the original commands: a kernel comes after the
// build of its program, and a link after the compilation of its inputs. `compiled`: the time that
// the programs took.
Result<> recreate_objects(std::chrono::milliseconds &compiled);

}  // namespace ckpt::ocl
