// SPDX-License-Identifier: Apache-2.0
//
// Does a kernel of the program call malloc? Memory of the device's heap is the driver's to keep, and
// whoever manages a node wants to know of it. Told from the code that the program has loaded
// (fatbin/), erring to "yes".
#pragma once

#include <string>

namespace ckpt::cuda {

// The program has loaded this code. What lies in a mapped file is examined later, anything else now.
void note_code(const void *code);
void note_code_file(const char *path);

struct HeapVerdict {
  bool used = false;
  std::string why;
};
// Examines what was not yet: for large libraries the better part of a second, the first time.
HeapVerdict heap_verdict();

}  // namespace ckpt::cuda
