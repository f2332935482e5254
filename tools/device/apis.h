// SPDX-License-Identifier: Apache-2.0
//
// All that the tools know of an API: its name, and how a program's loader finds ckpt's driver for
// it. For everything else they ask the executable ckpt-NAME-proxy.
#pragma once

#include <string>
#include <vector>

namespace ckpt::tools {

struct Api {
  const char *name;          // "ocl"; the prefix in --device
  const char *library_room;  // the folder of its libraries in a build tree
  // The environment variable that names our driver to the API's loader. Null: the proxy's
  // executable tells the whole environment (--environment).
  const char *variable;
  // A variable by which the loader would find further drivers, which is therefore removed; or null.
  const char *removed_variable;
  // Whether its devices can get contents while the program runs (ckpt-restore --lazy).
  bool loads_later;
};

inline constexpr Api kApis[] = {
    {"ocl", "libckpt-ocl", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", true},
    {"cuda", "libckpt-cuda", nullptr, nullptr, false},
};

// The executable of an API's proxy, in this build tree or as installed; empty if it does not exist.
std::string proxy_executable(const Api &api);
// ckpt-remote-proxy, which stands for the proxies of another node; empty if it does not exist.
std::string remote_proxy_executable();
// ckpt-cuda-server, which serves the CUDA devices of this node; empty if it does not exist.
std::string cuda_server_executable();
const Api *find_api(std::string_view name);
// If none exists: the names that were searched for, and the folder; otherwise "".
std::string why_no_proxy();
// The value of an API's variable: the folder that describes our driver, or the driver itself; empty
// if it does not exist.
std::string driver_folder(const Api &api);
// The path of another tool of this installation, such as "ckpt-dump".
std::string sibling_tool(const std::string &name);

}  // namespace ckpt::tools
