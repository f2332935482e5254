// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump --suspend: the program releases its devices, or their memory alone, but keeps running.
// It passes through the same life cycle as in a dump, but neither CRIU nor root is needed.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "agent/protocol.h"
#include "common/base/bytes.h"
#include "common/base/result.h"
#include "tools/dump/cancel.h"

namespace ckpt::tools {

struct SuspendOptions {
  pid_t pid = 0;
  std::string folder;  // for the contents of device memory; "": host memory
  protocol::Depth depth = protocol::Depth::Full;
  int timeout_seconds = 60;
  u32 rounds_ahead = 0;                       // of copies while the program runs
  u64 prepare_bytes = protocol::kAheadBytes;  // host memory that is taken before the program waits
};

struct SuspendReport {
  pid_t pid = 0;
  u64 device_bytes = 0;
  protocol::Depth depth = protocol::Depth::Full;  // that was reached: OpenCL has only this one
  bool deepened = false;                          // the program was suspended before
  double seconds = 0;
  double pause_seconds = 0;  // of these, the time in which the program could not use its devices
};

// Suspends all processes that use a device. After a failure the program keeps its devices. One that
// is suspended at Depth::Memory is taken to Depth::Full, and after a failure is where it was.
Result<SuspendReport> suspend(const SuspendOptions &options, Cancel &cancel);

// The same, with a line in the history.
Result<SuspendReport> suspend_and_note(const SuspendOptions &options, Cancel &cancel);

// "full"
const char *name_of(protocol::Depth depth);
// The report, for --json and for users. `folder`: of SuspendOptions.
nlohmann::json as_json(const SuspendReport &report);
std::string text_of(const SuspendReport &report, const std::string &folder);

}  // namespace ckpt::tools
