// SPDX-License-Identifier: Apache-2.0
//
// The options of ckpt-run that divide kernels into slices (docs/GUEST.md).
#pragma once

#include "tools/command_line.h"
#include "tools/device/environment.h"

namespace ckpt::tools {

struct GuestOptions {
  bool guest = false;
  std::string fps, slice, tuning;
};

void add_guest_options(CommandLine &line, GuestOptions &o);

// Adds the variables that slicing/settings.h names.
Result<> add_slices(const GuestOptions &o, ProgramEnvironment &e);

}  // namespace ckpt::tools
