// SPDX-License-Identifier: Apache-2.0
//
// ckpt-run --managed: which Manager, and what the program is told of it.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "common/base/result.h"
#include "tools/device/environment.h"

namespace ckpt::tools {

struct ManagedOptions {
  bool managed = false, unmanaged = false;
  std::optional<int> priority;
};

void add_managed_options(CLI::App &app, ManagedOptions &o);
// Adds to the program's environment. Where the user has asked for a Manager there must be one;
// where CKPTD_SOCKET alone names it, the program finds out by itself.
Result<> add_manager(const ManagedOptions &o, bool device_chosen, ProgramEnvironment &e);

}  // namespace ckpt::tools
