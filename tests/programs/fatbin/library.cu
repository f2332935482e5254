// SPDX-License-Identifier: Apache-2.0
//
// With -DCALLED, twice() allocates. Without it, only an unused function does, and the device linker
// removes that.
#include <cstdlib>

__device__ int *allocate(int n) { return static_cast<int *>(malloc(n)); }

__device__ int twice(int n) {
#ifdef CALLED
  return *allocate(n);
#else
  return 2 * n;
#endif
}
