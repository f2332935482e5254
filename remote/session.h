// SPDX-License-Identifier: Apache-2.0
//
// One connection to ckpt-devd, in a process of its own: what a hostile or unlucky peer does ends no
// other connection, and everything that it used ends with the process.
//
// The process asks the daemon, over a socket pair, whether the user may enter, and for memory.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "remote/tls.h"

namespace ckpt::remote {

// Messages on the socket pair (common/ipc/unix_socket.h).
enum class Note : u16 {
  // To the daemon.
  Enter = 1,   // {str user}; the answer is Granted or Denied
  Memory = 2,  // {i64 change}; the answer is Granted or Denied
  Failed = 3,  // {str why}: a line for the log
  // From the daemon.
  Granted = 16,
  Denied = 17,  // {str what, str hint}
};

// How the real devices' process is started, which is the business of a tool.
struct ProxyStarter {
  struct Answer {
    int exit_code = 0;
    std::string output;
  };
  // ckpt-ocl-proxy with these arguments, until it ends.
  std::function<Result<Answer>(const std::vector<std::string> &arguments, const std::string &input)>
      ask;
  // ckpt-ocl-proxy --serve, which ends with the calling thread.
  std::function<Result<pid_t>(const std::vector<std::string> &arguments, int client, int control,
                              int output, int errors)>
      start;
};

struct SessionOptions {
  const Tls *tls = nullptr;  // null: a UNIX socket; the kernel names its peer
  std::string account;       // under which root's daemon serves all users; empty: the user's own
  ProxyStarter starter;
};

// Serves the peer until it hangs up. `daemon`: this side of the socket pair.
void serve_session(UniqueFd peer, UniqueFd daemon, const SessionOptions &options);

}  // namespace ckpt::remote
