// SPDX-License-Identifier: Apache-2.0
//
// The instructions that programs may use on this machine. A program, and its C library, choose by
// them when they start: on a processor without one, a restored copy ends by SIGILL, or earlier, by
// the size of its registers.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace ckpt::tools {

// By their names in /proc/cpuinfo, without those that only the kernel uses.
std::set<std::string> processor_features();
// Its name there; "" where the kernel does not say it, as on ARM.
std::string processor_model();
// Of the text of /proc/cpuinfo.
std::set<std::string> processor_features_in(std::string_view cpuinfo);

}  // namespace ckpt::tools
