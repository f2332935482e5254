// SPDX-License-Identifier: Apache-2.0
#include "fatbin/names.h"

namespace ckpt::fatbin {
namespace {

// cudaLaunchDevice, cudaLaunchDeviceV2 and their forms in the device runtime of CUDA 12 and later
// (__cudaCDP2LaunchDeviceV2): what the compiler makes of a launch within a kernel.
bool is_launch(std::string_view name) {
  for (std::string_view prefix : {"__cudaCDP2", "__cuda", "cuda"})
    if (name.starts_with(prefix)) return name.substr(prefix.size()).starts_with("LaunchDevice");
  return false;
}

// new and delete are made of malloc and free; cudaMalloc in a kernel calls malloc once it is
// linked.
bool is_allocation(std::string_view name) {
  return name == "malloc" || name == "cudaMalloc" || name == "__cudaCDP2Malloc";
}

}  // namespace

void note_function(CodeFacts &facts, std::string_view name, bool imported) {
  if (imported && is_allocation(name)) facts.heap_function = name;
  if (imported && name == "vprintf") facts.prints = true;
  if (is_launch(name)) facts.launches = true;
}

// A dot in a name of LLVM becomes a dollar in PTX (.str: $str).
bool is_compiler_generated(std::string_view variable) {
  return variable.empty() || variable[0] == '$' || variable[0] == '.' ||
         variable.starts_with("__unnamed_");
}

Result<std::string> NameBudget::take(std::string_view name) {
  if (name.size() > kLongest || name.size() + kEach > left_)
    return fail("its names are beyond all bounds ({} bytes in one, {} in all)", kLongest, kAll);
  left_ -= name.size() + kEach;
  return std::string(name);
}

}  // namespace ckpt::fatbin
