// SPDX-License-Identifier: Apache-2.0
//
// Where CRIU is that is there for ckpt alone: older versions of the system stay as they are.
#pragma once

#include <unistd.h>

#include <string>

namespace ckpt {

// The one of scripts/setup, or that of the package ckpt-criu; "": neither is installed.
inline std::string private_criu() {
  for (const char *path : {"/opt/ckpt/criu/bin/criu", "/usr/lib/ckpt/criu/sbin/criu"})
    if (::access(path, X_OK) == 0) return path;
  return {};
}

}  // namespace ckpt
