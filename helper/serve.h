// SPDX-License-Identifier: Apache-2.0
//
// Serves one request in a separate process: identifies the caller, checks what it may request, and
// runs CRIU.
#pragma once

#include <string>

#include "common/base/unique_fd.h"
#include "helper/criu_arguments.h"
#include "helper/identity.h"

namespace ckpt::helper {

struct Service {
  std::string criu;      // an executable of root's
  std::string folder;    // of root's, for what lives as long as a request
  u64 capabilities = 0;  // of CRIU
  std::string plugins = trusted_dump_plugins();
  bool lazy = false;  // restores may be lazy (helper/userfaultfds.h)
  // The request comes from root's own tool, for a program of this user. It may dump programs in any
  // namespace.
  const Identity *for_root = nullptr;
};

// Returns when all is done; errors were sent to the caller.
void serve(UniqueFd connection, const Service &service);

// The main function of a process that serves only the tool of root that has started it.
//   NAME --helper FD IDENTITY CAPABILITIES CRIU FOLDER
int serve_starter(const char *const *arguments);

}  // namespace ckpt::helper
