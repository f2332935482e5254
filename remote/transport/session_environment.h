// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ckpt::remote {

// Whether a variable of ckpt-devd's environment is meant for the drivers, the loaders and the
// locale of its sessions. A user reads the environment of processes of their own
// (/proc/PID/environ), and that of a service may have secrets.
bool is_for_sessions(std::string_view name);

// Removes all other variables from the environment of this process.
void keep_environment_for_sessions();

}  // namespace ckpt::remote
