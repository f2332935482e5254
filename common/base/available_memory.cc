// SPDX-License-Identifier: Apache-2.0
#include "common/base/available_memory.h"

#include <algorithm>

#include "common/base/cgroup_memory.h"
#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt {
namespace {

u64 available_in_machine() {
  std::string meminfo = proc::text_of_machine("meminfo");
  return leading_number(after_name(meminfo, "MemAvailable:"), u64{0}) << 10;
}

}  // namespace

u64 available_memory() { return std::min(available_in_machine(), memory_left_in_cgroup()); }

}  // namespace ckpt
