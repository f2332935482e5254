// SPDX-License-Identifier: Apache-2.0
//
// CRIU as an executable: where it is, whether it is new enough, what its log says went wrong.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ckpt::tools {

struct Criu {
  std::string path;
  std::string version;  // "4.1.1"
};

// $CKPT_CRIU, /opt/ckpt/criu/bin/criu, PATH, in this order; at least 4.1 (facts: earlier ones do
// not know the vDSO of kernels 6.13 and later, checkpoint-restore/criu#2532).
Result<Criu> find_criu();

// The lines of a CRIU log that tell why it failed, and what to do about it where that is known.
Error criu_error(const std::string &log_path, const std::string &verb, int wait_status);

}  // namespace ckpt::tools
