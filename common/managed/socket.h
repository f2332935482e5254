// SPDX-License-Identifier: Apache-2.0
//
// Where ckptd listens unless it is told otherwise, so that programs and tools find it.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace ckpt::managed {

// The node's, of a ckptd that root runs.
inline constexpr const char *kNodeSocket = "/run/ckptd.sock";

// A user's own: in CKPT_RUNTIME_DIR, else XDG_RUNTIME_DIR, else /tmp.
inline std::string own_socket() {
  for (const char *variable : {"CKPT_RUNTIME_DIR", "XDG_RUNTIME_DIR"})
    if (const char *folder = std::getenv(variable); folder != nullptr && *folder == '/')
      return std::string(folder) + "/ckptd.sock";
  return "/tmp/ckptd-" + std::to_string(::getuid()) + ".sock";
}

// Which of the two somebody who was not told means: the user's own, if there is one.
inline std::string usual_socket() {
  std::string own = own_socket();
  return ::access(own.c_str(), F_OK) == 0 ? own : kNodeSocket;
}

}  // namespace ckpt::managed
