// SPDX-License-Identifier: Apache-2.0
//
// The ledger's calls, sent to a new server: it then has the same objects under the same numbers.
// With the gate closed.
#pragma once

#include <chrono>

#include "common/base/result.h"

namespace ckpt::remote::cuda {

// `compiled`: the time that loading code took.
Result<> replay_ledger(std::chrono::milliseconds &compiled);

}  // namespace ckpt::remote::cuda
