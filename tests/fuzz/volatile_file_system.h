// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "storage/io/file_system.h"

namespace ckpt {

// Skips fsync(), because what a fuzzer writes need not survive a power cut.
class VolatileFileSystem : public storage::FileSystem {
 public:
  int fsync(int) override { return 0; }
};

}  // namespace ckpt
