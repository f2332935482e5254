// SPDX-License-Identifier: Apache-2.0
//
// Properties of a machine besides its load: power supply, temperature, time of day.
#pragma once

#include <optional>
#include <string>

namespace ckpt::tools {

// `root`: "" for this machine; a folder with sys/ in tests.

// It has a battery that is in use.
bool on_battery(const std::string &root);
// The warmest of the kernel's thermal zones; no value: there is none.
std::optional<double> warmest_celsius(const std::string &root);
// Of the local day.
int minute_of_day();

}  // namespace ckpt::tools
