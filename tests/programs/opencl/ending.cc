// SPDX-License-Identifier: Apache-2.0
//
// Ends, and stays in an exit handler that was registered before OpenCL was used, so it runs after
// those of the libraries.
#include "cl_test.h"

int main() {
  std::atexit(pause_here);
  Cl cl;
  return finish();
}
