// SPDX-License-Identifier: Apache-2.0
//
// Checks the caller's image before CRIU reads it.
//
// An image says which capabilities its processes have, and CRIU gives them to the processes if it
// has them itself. So a hostile image could obtain the capabilities that were given to CRIU. A
// separate process without any rights passes the streamer's messages on (tools/criu/streamer.h),
// and reads the files that name capabilities before CRIU does: core-PID.img, one for each thread.
// All other files go straight from the caller into CRIU's pipes. The older creds-PID.img, which
// CRIU reads if a core file names no capabilities, is hidden from CRIU.
//
// Source: CRIU 4.2.1, images/core.proto, images/creds.proto, criu/cr-restore.c (rst_prep_creds).
#pragma once

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "helper/identity.h"

namespace ckpt::helper {

// Fails unless it is a file as CRIU writes it, of a thread without capabilities. Takes any bytes.
Result<> check_core_file(ByteView file);

// Starts the process, as `identity`. `log`: CRIU's, for the reason of a refusal.
Result<> start_vetting(UniqueFd criu, UniqueFd caller, const Identity &identity, int log);

}  // namespace ckpt::helper
