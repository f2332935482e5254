// SPDX-License-Identifier: Apache-2.0
//
// What a tool knows of an API: its name, and how a program is led to our driver for it. All else is
// behind the executable ckpt-<name>-proxy.
#pragma once

#include <string>
#include <vector>

namespace ckpt::tools {

struct Api {
  const char *name;          // "ocl"; the prefix in --device
  const char *library_room;  // the folder of our libraries for it in a build tree
  // The environment variable that leads the API's loader to our driver; null: the executable says
  // how (--environment).
  const char *variable;
  const char
      *other_way;  // one by which a loader finds further drivers: not for the program; or null
};

inline constexpr Api kApis[] = {
    {"ocl", "libckpt-ocl", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"},
    {"cuda", "libckpt-cuda", nullptr, nullptr},
};

// The executable of an API's proxy: of this build tree, or as installed. Empty: there is none.
std::string proxy_executable(const Api &api);
const Api *find_api(std::string_view name);
// The folder that an API's variable names. Empty: there is none.
std::string driver_folder(const Api &api);
// Another tool of this installation: "ckpt-dump".
std::string sibling_tool(const std::string &name);

}  // namespace ckpt::tools
