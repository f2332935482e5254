// SPDX-License-Identifier: Apache-2.0
//
// How a program's device code uses memory, as read from its fat binaries (fatbin/). Two facts
// matter. Kernels that call malloc use the device heap, which only the driver can save, and which
// the Manager cannot measure. Managed variables cannot be checkpointed at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::cuda {

// For the Manager, before the code runs.
struct ProgramCode {
  bool device_heap = false;    // kernels use it, or it cannot be ruled out
  std::string reason;          // why device_heap is set
  std::vector<u64> variables;  // the size of each device variable, in bytes
};
// Examines the executable and the libraries that are mapped now, except the toolkit's own. Called
// before the driver is started.
ProgramCode program_code();

// For a checkpoint: all code that was loaded so far.
struct CodeFacts {
  bool device_heap = false;
  std::string reason;
  std::string managed_variable;  // the name of one; empty: no such variable
};
// Examines what was loaded since the last call. The first call may take most of a second for large
// libraries.
CodeFacts code_facts();

struct ExaminedCode {
  CodeFacts facts;
  std::vector<u64> variables;  // as in ProgramCode
};

// Code that the program is about to load, from memory or from a file. The argument may be null.
class NewCode {
 public:
  explicit NewCode(const void *code) : memory_(code) {}
  explicit NewCode(const char *path) : path_(path) {}

  // Empty where program_code() has examined it already.
  ProgramCode examine();
  // The load has succeeded. Code in a mapped file stays readable, so code_facts() examines it
  // later; other code is examined now.
  void loaded();

 private:
  ExaminedCode read() const;

  const void *memory_ = nullptr;
  const char *path_ = nullptr;
  std::optional<ExaminedCode> examined_;
};

}  // namespace ckpt::cuda
