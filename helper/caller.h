// SPDX-License-Identifier: Apache-2.0
//
// The process that sends a request. The request is executed with the caller's own restrictions: a
// caller in a container or a sandbox must not escape from it with the help of a program of the
// host.
#pragma once

#include <sys/types.h>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "helper/identity.h"
#include "helper/resource_limits.h"

namespace ckpt::helper {

class Caller {
 public:
  // The process at the other end of a connection. Refuses one that is confined in a way that this
  // process is not: by namespaces, a system call filter, no_new_privs (which Landlock needs too) or
  // AppArmor.
  static Result<Caller> of(int connection);

  const Identity &identity() const { return identity_; }
  // Gives this process the caller's cgroups, resource limits, nice value, processors, OOM score and
  // login uid. Fails if one of them cannot be taken over that restricts the caller. Returns the
  // limits, for the program.
  Result<Limits> join() const;

 private:
  Caller(pid_t pid, UniqueFd process, Identity identity)
      : pid_(pid), process_(std::move(process)), identity_(std::move(identity)) {}
  Result<> check_confinement();
  Result<> check_alive() const;

  pid_t pid_;
  UniqueFd process_;  // a pidfd: while it lives, nothing else has its PID
  Identity identity_;
};

}  // namespace ckpt::helper
