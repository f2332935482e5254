// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump --suspend: a program gives its devices up and stays where it is. The same verbs as a
// dump, without CRIU and without root.
#pragma once

#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "tools/dump/cancel.h"

namespace ckpt::tools {

struct SuspendOptions {
  pid_t pid = 0;
  std::string folder;  // where the contents of device memory go; "": host memory
  int timeout_seconds = 60;
};

struct SuspendReport {
  pid_t pid = 0;
  u64 device_bytes = 0;
  double seconds = 0;
};

// All processes of the program that use a device, or none: a failure leaves the program running.
Result<SuspendReport> suspend(const SuspendOptions &options, Cancel &cancel);

}  // namespace ckpt::tools
