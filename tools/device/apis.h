// SPDX-License-Identifier: Apache-2.0
//
// What a tool knows of an API: its name, and how a program is led to our driver for it. All else is
// behind the executable ckpt-<name>-proxy.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ckpt {

struct Api {
  const char *name;          // "ocl"; the prefix in --device
  const char *library_room;  // the folder of our libraries for it in a build tree
  const char *variable;      // the environment variable that leads the API's loader to our driver
  const char *other_way;     // one by which a loader finds further drivers: not for the program
};

inline constexpr Api kApis[] = {
    {"ocl", "libckpt-ocl", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"},
};

// The executable of an API's proxy: of this build tree, or as installed. Empty: there is none.
std::string proxy_executable(const Api &api);
const Api *find_api(std::string_view name);
// The variables that make a program use our drivers.
std::vector<std::pair<std::string, std::string>> driver_environment();
// Another tool of this installation: "ckpt-dump".
std::string sibling_tool(const std::string &name);

}  // namespace ckpt
