// SPDX-License-Identifier: Apache-2.0
//
// One connection to ckpt-devd, in a process of its own: what a hostile or unlucky peer does ends no
// other connection, and everything that it used ends with the process.
//
// The process asks the daemon, over a socket pair, whether the user may enter, and for memory. It
// says once who the user is, while it is still root's and runs nothing of the user's.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "remote/server/notes.h"
#include "remote/transport/munge.h"
#include "remote/transport/tls.h"

namespace ckpt::remote {

// How the real devices' process is started, which is the business of a tool.
struct ProxyStarter {
  struct Answer {
    int exit_code = 0;
    std::string output;
  };
  // The proxy of an API, "ocl" or "cuda", with these arguments, until it ends.
  std::function<Result<Answer>(const std::string &api, const std::vector<std::string> &arguments,
                               const std::string &input)>
      ask;
  // ckpt-ocl-proxy --serve, which ends with the calling thread.
  std::function<Result<pid_t>(const std::vector<std::string> &arguments, int client, int control,
                              int output, int errors)>
      start;
  // ckpt-cuda-server, which serves the program at the socket `connection` with these devices
  // (empty: all of this node), and asks the daemon at `daemon` for memory; it ends with the calling
  // thread.
  std::function<Result<pid_t>(const std::string &devices, int connection, int daemon)> start_cuda;
};

struct SessionOptions {
  const Tls *tls = nullptr;                  // null: a UNIX socket; the kernel names its peer
  const CredentialService *munge = nullptr;  // authenticates a peer of TLS without certificates
  std::string account;  // under which root's daemon serves all users; empty: the user's own
  ProxyStarter starter;
};

// Serves the peer until it hangs up. `daemon`: this side of the socket pair.
void serve_session(UniqueFd peer, UniqueFd daemon, const SessionOptions &options);

}  // namespace ckpt::remote
