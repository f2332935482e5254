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

// Ends the objects again, in the opposite order: first all but the contexts. Errors do not count,
// as an object may not have been made.
void end_objects();
void end_contexts();

}  // namespace ckpt::remote::cuda
