// SPDX-License-Identifier: Apache-2.0
//
// What is shared by the two readers of device code: the functions whose names tell something, and
// the bound on names.
#pragma once

#include "fatbin/facts.h"

namespace ckpt::fatbin {

// A function that the code names: `imported` if it is not defined there.
void note_function(CodeFacts &facts, std::string_view name, bool imported);

// A variable that no programmer declared: strings and the like.
bool is_compiler_generated(std::string_view variable);

// The device runtime's mark, a variable of libcudadevrt.a.
constexpr std::string_view kDeviceRuntimeMarker = "__CNPRT_VERSION_NUMBER__";

// How much one program may say. Mangled names of templates reach some ten thousand characters.
class NameBudget {
 public:
  // The name, or an error once all of them together are too long.
  Result<std::string> take(std::string_view name);

 private:
  static constexpr size_t kLongest = 256u << 10;
  static constexpr size_t kAll = 64u << 20;
  static constexpr size_t kEach = 64;  // bytes that a name of any length costs
  size_t left_ = kAll;
};

}  // namespace ckpt::fatbin
