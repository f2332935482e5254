// SPDX-License-Identifier: Apache-2.0
#include "common/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace ckpt {

unsigned usable_cores() {
  cpu_set_t set;
  int n = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  if (n == 0) n = static_cast<int>(std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::max(n, 1));
}

}  // namespace ckpt
