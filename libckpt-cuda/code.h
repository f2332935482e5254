// SPDX-License-Identifier: Apache-2.0
//
// What the code that the program has loaded tells of it (fatbin/). Does a kernel call malloc?
// Memory of the device's heap is the driver's to keep, and whoever manages a node wants to know of
// it. Are there managed variables, which the driver does not keep?
#pragma once

#include <string>
#include <vector>

#include "common/bytes.h"

namespace ckpt::cuda {

// The program has loaded this code. What lies in a mapped file is examined later, anything else
// now.
void note_code(const void *code);
void note_code_file(const char *path);

// What the files that are mapped now tell before the driver is started: the executable and its
// libraries, but the toolkit's own.
struct ProgramCode {
  bool heap = false;
  std::string why;
  std::vector<u64> variables;  // bytes of each in device memory
};
ProgramCode program_code();

struct CodeFacts {
  bool heap = false;             // used, or it cannot be known
  std::string why;               // … because
  std::string managed_variable;  // the name of one; empty: there is none
};
// Examines what was not yet: for large libraries the better part of a second, the first time.
CodeFacts code_facts();

}  // namespace ckpt::cuda
