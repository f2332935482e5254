// SPDX-License-Identifier: Apache-2.0
#include "manager-client/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "agent/ipc/own_fd.h"
#include "common/base/file_text.h"
#include "common/base/fnv.h"
#include "common/proc/file.h"

namespace ckpt::manager_client {

void MemoryUse::note_peak() { peak_ = std::max(peak_, used() + variables); }

u64 workload_hash() {
  u64 hash = fnv1a(proc::link(proc::kSelf, "exe"), kFnvStart);
  Result<agent::OwnFd> in =
      agent::OwnFd::make([] { return proc::open(proc::kSelf, "cmdline", O_RDONLY); });
  return in ? fnv1a(text_behind(in->get()).value_or(""), hash) : hash;
}

i32 priority() {
  const char *text = ::secure_getenv("CKPT_PRIORITY");
  return text ? static_cast<i32>(std::strtol(text, nullptr, 10)) : 0;
}

}  // namespace ckpt::manager_client
