// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore --resume: a suspended program gets devices again, its own or others.
#pragma once

#include <string>

#include "common/base/result.h"

namespace ckpt::tools {

struct ResumeOptions {
  pid_t pid = 0;
  std::string device;  // as --device; "": its own, or whatever can stand for them
  bool ignore_limits = false;
};

struct ResumeReport {
  pid_t pid = 0;
  size_t processes = 0;
  double seconds = 0;
};

// A failure leaves it suspended.
Result<ResumeReport> resume(const ResumeOptions &options);

}  // namespace ckpt::tools
