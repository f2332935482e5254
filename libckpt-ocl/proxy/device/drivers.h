// SPDX-License-Identifier: Apache-2.0
//
// Which drivers this process loads
//
// The ICD loader loads every driver of the machine at the first call, and some bring a compiler of
// 100 MiB: loading PoCL, rusticl and oclgrind takes 0.45 s of processor time, PoCL alone 0.04 s. A
// process for chosen devices needs only their drivers. So `--list` says of each device where its
// platform comes from, and the tools pass that on with the choice.
//
//   --list               {"id": "1.0", "platform_source": "0:/usr/lib/libpocl.so.2"}
//   --device 1.0 --driver 1:0:/usr/lib/libpocl.so.2
//                        the platform with the number 1 is the first one of this library
//
// The loader gets a folder that names these libraries only, in place of OCL_ICD_VENDORS. A platform
// keeps its number, and so devices keep their keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ring/table.h"

namespace ckpt::ocl {

// "N:PATH": the platform is the Nth of this library; empty for those that no file can name.
std::vector<std::string> sources_of(const std::vector<cl_platform_id> &platforms);

// Loads only these drivers ("NUMBER:N:PATH"), to be called before anything else of OpenCL. False:
// they have not all been found, and this process cannot load others any more.
bool load_only(const std::vector<std::string> &drivers);
// The number of a platform in the list of all; `position`: among those that were loaded. No value:
// it was not asked for.
std::optional<size_t> platform_number(const std::string &source, size_t position);

}  // namespace ckpt::ocl
