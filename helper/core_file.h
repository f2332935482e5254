// SPDX-License-Identifier: Apache-2.0
//
// The credentials in CRIU's core-PID.img, one file for each thread. A restore gives them to the
// thread, whatever /proc said about it before.
//
// Source: CRIU 4.2.1, images/core.proto, images/creds.proto, criu/cr-restore.c (rst_prep_creds).
#pragma once

#include <optional>
#include <string_view>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/proc/identity.h"

namespace ckpt::helper {

inline constexpr std::string_view kCoreFiles = "core-";  // what their names begin with
// Longer than any that CRIU writes: it has a few kilobytes, and the largest floating point state.
inline constexpr size_t kMaxCoreBytes = 1u << 20;

// No value: of a process that has ended, and runs nothing. Takes any bytes. Fails unless it is a
// file as CRIU writes it: what two decoders of protocol buffers could read differently is refused.
Result<std::optional<ThreadIdentity>> identity_in_core(ByteView file);

}  // namespace ckpt::helper
