// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/bytes.h"

namespace ckpt {

// The smallest multiple of `to` that is not less than `n`.
constexpr u64 rounded_up(u64 n, u64 to) { return (n + to - 1) / to * to; }

}  // namespace ckpt
