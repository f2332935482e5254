// SPDX-License-Identifier: Apache-2.0
//
// Of programs that a test moves between devices: steps for which the program waits, and a library
// that takes addresses of the device before the program's own code is loaded.
#pragma once

#include <unistd.h>

#include "check.h"

// The file "steps" has the number of steps that the program may make; without it, all.
inline bool may_go_on(int steps) {
  int most = steps + 1;
  if (std::FILE *f = std::fopen("steps", "r")) {
    if (std::fscanf(f, "%d", &most) != 1) most = 0;
    std::fclose(f);
  }
  return steps < most;
}

inline int devices_seen() {
  int n = 0;
  CUDA(cudaGetDeviceCount(&n));
  return n;
}

// No move shows the program more devices.
inline void wait_until_wanted(int steps) {
  static const int kAtFirst = devices_seen();
  std::printf("step %d\n", steps);
  std::fflush(stdout);
  while (!may_go_on(steps)) usleep(2000);
  CHECK(devices_seen() <= kAtFirst);
}

constexpr const char *kLibrary =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .global .align 4 .b8 gap[1000];\n";

inline cudaLibrary_t load_library() {
  cudaLibrary_t library;
  void *gap;
  size_t bytes;
  CUDA(cudaLibraryLoadData(&library, kLibrary, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUDA(cudaLibraryGetGlobal(&gap, &bytes, library, "gap"));
  return library;
}
