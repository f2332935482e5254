// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore --resume: gives a suspended program devices again, the same or others, and moves a
// program that runs to other devices.
#pragma once

#include <optional>
#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "tools/device/device.h"
#include "tools/history/moves.h"

namespace ckpt::tools {

struct ResumeOptions {
  pid_t pid = 0;
  std::string device;  // as --device; "": all devices
  ReadLimits limits = ReadLimits::Warn;
  u32 rounds_ahead = 0;  // of a program that runs: as ckpt-dump --copy-ahead
};

struct ResumeReport {
  pid_t pid = 0;
  size_t processes = 0;
  double seconds = 0;
  std::optional<double> pause;   // of these, of a program that ran: without its devices
  std::optional<MoveLine> line;  // for the history; no value: it is not known what was moved
};

// After a failure a suspended program stays suspended. One that ran has its former devices, unless
// it could not be woken.
Result<ResumeReport> resume(const ResumeOptions &options);
// The same, with a line in the history.
Result<ResumeReport> resume_and_note(const ResumeOptions &options);

}  // namespace ckpt::tools
