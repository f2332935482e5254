// SPDX-License-Identifier: Apache-2.0
//
// The output of ckpt-node-bench.
#pragma once

#include <string>

#include "common/base/result.h"
#include "schedule/contention/node.h"

namespace ckpt::tools {

Result<schedule::Bandwidths> read_bandwidths(const std::string &path);

}  // namespace ckpt::tools
