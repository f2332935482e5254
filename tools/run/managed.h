// SPDX-License-Identifier: Apache-2.0
//
// ckpt-run --managed: which Manager a program uses, and how the program learns of it.
#pragma once

#include <optional>

#include "common/base/result.h"
#include "tools/command_line.h"
#include "tools/device/environment.h"

namespace ckpt::tools {

// The Manager treats programs with a priority below 0 as guests.
inline constexpr int kGuestPriority = -1;

struct ManagedOptions {
  bool managed = false, unmanaged = false;
  std::optional<int> priority;
};

void add_managed_options(CommandLine &line, ManagedOptions &o);
// Adds the Manager's socket to the program's environment. With --managed the Manager must be
// running. If only CKPTD_SOCKET names it, the program connects by itself, and runs unmanaged if no
// Manager answers.
Result<> add_manager(const ManagedOptions &o, bool device_chosen, ProgramEnvironment &e);

}  // namespace ckpt::tools
