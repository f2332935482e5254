// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore --resume: gives a suspended program devices again, the same or others.
#pragma once

#include <string>

#include "common/base/result.h"

namespace ckpt::tools {

struct ResumeOptions {
  pid_t pid = 0;
  std::string device;  // as --device; "": all devices
  bool ignore_limits = false;
};

struct ResumeReport {
  pid_t pid = 0;
  size_t processes = 0;
  double seconds = 0;
};

// After a failure the program stays suspended.
Result<ResumeReport> resume(const ResumeOptions &options);

}  // namespace ckpt::tools
