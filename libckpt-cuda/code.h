// SPDX-License-Identifier: Apache-2.0
//
// What the code that the program has loaded tells of it (fatbin/). Does a kernel call malloc?
// Memory of the device's heap is the driver's to keep, and whoever manages a node wants to know of
// it. Are there managed variables, which the driver does not keep?
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::cuda {

// What code tells of a program before it runs.
struct ProgramCode {
  bool heap = false;
  std::string why;
  std::vector<u64> variables;  // bytes of each in device memory
};
// The files that are mapped now, before the driver is started: the executable and its libraries,
// but the toolkit's own.
ProgramCode program_code();

struct CodeFacts {
  bool heap = false;             // used, or it cannot be known
  std::string why;               // … because
  std::string managed_variable;  // the name of one; empty: there is none
};
// Examines what was not yet: for large libraries the better part of a second, the first time.
CodeFacts code_facts();

// Code that the program is about to load.
class NewCode {
 public:
  explicit NewCode(const void *code) : memory_(code) {}
  explicit NewCode(const char *path) : path_(path) {}

  // Examines it, unless program_code() has.
  ProgramCode tells();
  // It was loaded. What lies in a mapped file and was not examined yet is so later, anything else
  // now.
  void loaded();

 private:
  struct Examined {
    CodeFacts facts;
    std::vector<u64> variables;
  };
  static Examined examine(const void *memory, const char *path);

  const void *memory_ = nullptr;
  const char *path_ = nullptr;
  std::optional<Examined> examined_;
  friend CodeFacts code_facts();
};

}  // namespace ckpt::cuda
