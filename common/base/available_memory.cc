// SPDX-License-Identifier: Apache-2.0
#include "common/base/available_memory.h"

#include <algorithm>
#include <cstdio>

#include "common/base/cgroup_memory.h"

namespace ckpt {
namespace {

u64 available_in_machine() {
  FILE *in = std::fopen("/proc/meminfo", "re");
  if (!in) return 0;
  char line[128];
  unsigned long long kib = 0;
  while (std::fgets(line, sizeof line, in) &&
         std::sscanf(line, "MemAvailable: %llu kB", &kib) != 1) {
  }
  std::fclose(in);
  return kib * 1024;
}

}  // namespace

u64 available_memory() { return std::min(available_in_machine(), memory_left_in_cgroup()); }

}  // namespace ckpt
