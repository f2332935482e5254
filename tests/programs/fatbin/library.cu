// SPDX-License-Identifier: Apache-2.0
//
// -DCALLED: twice() allocates. Without it only a function does that nobody calls, which the device
// linker leaves out.
#include <cstdlib>

__device__ int *allocate(int n) { return static_cast<int *>(malloc(n)); }

__device__ int twice(int n) {
#ifdef CALLED
  return *allocate(n);
#else
  return 2 * n;
#endif
}
