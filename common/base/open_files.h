// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

namespace ckpt {

// Raises the limit of this process's descriptors to its hard limit. The usual soft limit of 1024
// exists for select(2).
inline void allow_many_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace ckpt
