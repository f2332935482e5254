// SPDX-License-Identifier: Apache-2.0
//
// The default sockets of ckptd, where programs and tools find it.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace ckpt::managed {

// Of a ckptd that root runs, for the node.
inline constexpr const char *kNodeSocket = "/run/ckptd.sock";

// Of a user's own ckptd: in CKPT_RUNTIME_DIR, otherwise XDG_RUNTIME_DIR, otherwise /tmp.
inline std::string own_socket() {
  for (const char *variable : {"CKPT_RUNTIME_DIR", "XDG_RUNTIME_DIR"})
    if (const char *folder = std::getenv(variable); folder != nullptr && *folder == '/')
      return std::string(folder) + "/ckptd.sock";
  return "/tmp/ckptd-" + std::to_string(::getuid()) + ".sock";
}

// The socket of the user's own ckptd if it exists, otherwise the node's. In /tmp another user could
// have created a file of that name, so its owner is checked.
inline std::string usual_socket() {
  std::string own = own_socket();
  struct stat st {};
  bool ours = ::lstat(own.c_str(), &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == ::geteuid();
  return ours ? own : kNodeSocket;
}

}  // namespace ckpt::managed
