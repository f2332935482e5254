// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "manager/policy/program.h"

namespace ckpt::manager {

// What a move of this many bytes costs is small beside this many times as long.
inline constexpr i64 kMoveTimesToPayOff = 10;

// Out and in at 2 GB/s each, since the bandwidth of this node is unknown: 1 GB/s in microseconds.
inline Time move_time(u64 bytes) { return Time(static_cast<i64>(bytes / 1000)); }

}  // namespace ckpt::manager
