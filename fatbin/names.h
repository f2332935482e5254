// SPDX-License-Identifier: Apache-2.0
//
// What the readers of cubins and of PTX share: functions that reveal a feature by their names, and
// limits on the names that are kept.
#pragma once

#include "fatbin/facts.h"

namespace ckpt::fatbin {

// Notes a function that the code mentions; `imported` if it is not defined there.
void note_function(CodeFacts &facts, std::string_view name, bool imported);

// Whether the compiler made the variable: string constants and the like.
bool is_compiler_generated(std::string_view variable);

// A variable that only libcudadevrt.a, the device runtime, defines.
constexpr std::string_view kDeviceRuntimeMarker = "__CNPRT_VERSION_NUMBER__";

// Limits the names that are kept of one cubin or PTX text. Mangled names of templates reach about
// ten thousand characters.
class NameBudget {
 public:
  // A copy of the name, or an error if it or all names together are too long.
  Result<std::string> take(std::string_view name);

 private:
  static constexpr size_t kMaxNameBytes = 256u << 10;
  static constexpr size_t kMaxTotalBytes = 64u << 20;
  static constexpr size_t kBytesPerName = 64;  // charged for each name besides its length
  size_t left_ = kMaxTotalBytes;
};

}  // namespace ckpt::fatbin
