// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/result.h"

namespace ckpt::tools {

// The seconds of a round trip to the ckpt-devd at `host` (HOST, HOST:PORT), as the kernel measures
// it while it connects. Nothing is sent.
Result<double> round_trip_to(const std::string &host);

}  // namespace ckpt::tools
