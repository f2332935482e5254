// SPDX-License-Identifier: Apache-2.0
//
// CRIU as a child of ckpt-helper.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/result.h"
#include "helper/identity.h"

namespace ckpt::helper {

struct Child {
  std::vector<std::string> argv;
  std::string folder;  // the working directory
  int in = -1;         // -1: /dev/null
  int out = -1;        // its standard output and standard error
  std::vector<int> inherited;
  int mount_namespace = -1;  // a descriptor of the one to enter; -1: ours
};

// Closes all descriptors above 2 but these.
void close_all_but(std::vector<int> kept);

// CRIU gets only descriptors from the caller; its environment is fixed. Fails only if no process
// can be created; a child that cannot execute CRIU ends with code 127.
Result<pid_t> start_criu(const Child &child, const Identity &identity, u64 capabilities);

// Waits for CRIU and returns its wait status. If a signal has ended it, its children are ended,
// too: one with which it probes the kernel would sleep forever, and hold its connections.
int reap_with_children(pid_t criu);

}  // namespace ckpt::helper
