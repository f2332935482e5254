// SPDX-License-Identifier: Apache-2.0
//
// The main function of the owner of device memory (memory_owner.h).
#pragma once

#include <string>

#include "common/base/bytes.h"
#include "common/base/unique_fd.h"

namespace ckpt::cuda {

struct OwnerPlace {
  std::string driver;   // the file of the CUDA driver
  UniqueFd connection;  // to the program
  UniqueFd control;     // to the session's keeper, which sends Adopt
  u64 token = 0;        // the keeper's name for this process
};

// Returns the exit code.
int own_memory(OwnerPlace place);

}  // namespace ckpt::cuda
