// SPDX-License-Identifier: Apache-2.0
#include "common/base/available_memory.h"

#include <cstdio>

namespace ckpt {

u64 available_memory() {
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

}  // namespace ckpt
