// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/capability.h>

#include <string>

#include "common/base/bytes.h"

namespace ckpt {

constexpr u64 bit_of(int capability) { return u64{1} << capability; }

// "CAP_CHECKPOINT_RESTORE, CAP_SYS_PTRACE"; "capability 50" for one that Linux 6.18 does not have.
std::string names_of_capabilities(u64 set);

}  // namespace ckpt
