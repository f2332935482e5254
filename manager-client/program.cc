// SPDX-License-Identifier: Apache-2.0
#include "manager-client/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "agent/ipc/own_fd.h"
#include "common/base/fnv.h"

namespace ckpt::manager_client {

void MemoryUse::note_peak() { peak_ = std::max(peak_, used() + variables); }

u64 workload_hash() {
  u64 hash = kFnvStart;
  char part[4096];
  ssize_t n = ::readlink("/proc/self/exe", part, sizeof part);
  if (n > 0) hash = fnv1a({part, static_cast<size_t>(n)}, hash);
  Result<agent::OwnFd> in = agent::OwnFd::make([]() -> Result<UniqueFd> {
    return UniqueFd(::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  });
  while (in && (n = ::read(in->get(), part, sizeof part)) != 0) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0) hash = fnv1a({part, static_cast<size_t>(n)}, hash);
  }
  return hash;
}

i32 priority() {
  const char *text = ::secure_getenv("CKPT_PRIORITY");
  return text ? static_cast<i32>(std::strtol(text, nullptr, 10)) : 0;
}

}  // namespace ckpt::manager_client
