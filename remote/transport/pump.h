// SPDX-License-Identifier: Apache-2.0
//
// Bytes from one stream to another, and back: where a connection with TLS ends, for a process that
// is to have nothing of TLS.
#pragma once

#include "remote/transport/stream.h"

namespace ckpt::remote {

// Until one side hangs up, or is lost; the other one is then shut down, after what came before was
// written. Returns why, if a side was lost.
Result<> pump(Stream &a, Stream &b);

}  // namespace ckpt::remote
