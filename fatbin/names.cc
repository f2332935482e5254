// SPDX-License-Identifier: Apache-2.0
#include "fatbin/names.h"

namespace ckpt::fatbin {
namespace {

// What the compiler turns a launch within a kernel into: cudaLaunchDevice, cudaLaunchDeviceV2, and
// since CUDA 12 __cudaCDP2LaunchDeviceV2.
bool is_launch(std::string_view name) {
  for (std::string_view prefix : {"__cudaCDP2", "__cuda", "cuda"})
    if (name.starts_with(prefix)) return name.substr(prefix.size()).starts_with("LaunchDevice");
  return false;
}

// `new` in a kernel calls malloc. So does cudaMalloc in a kernel, but only after linking.
bool is_allocation(std::string_view name) {
  return name == "malloc" || name == "cudaMalloc" || name == "__cudaCDP2Malloc";
}

}  // namespace

void note_function(CodeFacts &facts, std::string_view name, bool imported) {
  if (imported && is_allocation(name)) facts.heap_function = name;
  if (imported && name == "vprintf") facts.prints = true;
  if (is_launch(name)) facts.launches = true;
}

// LLVM's names begin with a dot, which becomes a dollar in PTX (.str is $str).
bool is_compiler_generated(std::string_view variable) {
  return variable.empty() || variable[0] == '$' || variable[0] == '.' ||
         variable.starts_with("__unnamed_");
}

Result<std::string> NameBudget::take(std::string_view name) {
  if (name.size() > kMaxNameBytes || name.size() + kBytesPerName > left_)
    return fail("its names exceed the limits of {} bytes each and {} bytes in all", kMaxNameBytes,
                kMaxTotalBytes);
  left_ -= name.size() + kBytesPerName;
  return std::string(name);
}

}  // namespace ckpt::fatbin
