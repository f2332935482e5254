// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ckpt::tools {

// The libcuda.so.1 that the loader finds for an executable by DT_RPATH, which goes before
// LD_LIBRARY_PATH (ld.so(8)): a framework may ship a driver and link its programs to it in this
// way, directly or by a library in the same folders. Empty: there is none.
std::string driver_by_rpath(const std::string &executable);

}  // namespace ckpt::tools
