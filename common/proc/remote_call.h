// SPDX-License-Identifier: Apache-2.0
//
// System calls that a thread of a stopped process makes for us: some state of a thread or of its
// memory can be set by itself alone (set_mempolicy(2), mbind(2), prctl(2), mlockall(2)). The thread
// is stopped again where it was; its registers and its memory are unchanged. It makes exactly these
// calls, also if another process writes into its memory meanwhile: each is compared with what was
// asked for when the thread enters it.
#pragma once

#include <sys/types.h>

#include <array>
#include <memory>
#include <optional>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/proc/seized_thread.h"

namespace ckpt::proc {

class RemoteCalls {
 public:
  // Fails if the thread cannot be traced, or if a seccomp filter could end it.
  static Result<RemoteCalls> in(pid_t process, pid_t thread);

  using Arguments = std::array<u64, 6>;
  // The result of the call, or -errno.
  Result<i64> call(long number, const Arguments &arguments) const;
  // Writes into memory that the thread does not use while it is stopped. Returns the address there.
  Result<u64> put(ByteView bytes) const;
  Result<Bytes> get(u64 address, size_t size) const;

 private:
  RemoteCalls() = default;
  bool enters(long number, const Arguments &arguments) const;

  std::unique_ptr<SeizedThread> thread_;
  UniqueFd memory_;      // /proc/PID/mem
  u64 instruction_ = 0;  // the address of a `syscall`
};

}  // namespace ckpt::proc
