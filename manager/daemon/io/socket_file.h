// SPDX-License-Identifier: Apache-2.0
//
// The name of ckptd's socket, and the lock that distinguishes a running ckptd from a killed one.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::manager {

class SocketFile {
 public:
  SocketFile() = default;
  ~SocketFile();
  SocketFile(const SocketFile &) = delete;

  // A socket that listens at `path`. An error: another ckptd does, or `path` is not a socket.
  Result<UniqueFd> listen(const std::string &path);

 private:
  std::string path_;  // empty: does not listen
  UniqueFd lock_;
};

}  // namespace ckpt::manager
