// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/blockers.h"

#include <fmt/format.h>

#include "libckpt-cuda/code/code.h"
#include "libckpt-cuda/entry/noted_blockers.h"
#include "libckpt-cuda/memory/managed_memory.h"

namespace ckpt::cuda {
namespace {

void append_managed_memory(std::vector<std::string> &reasons) {
  if (u64 bytes = managed_memory().driver_bytes())
    reasons.push_back(fmt::format(
        "the program has {} bytes of managed memory (cuMemAllocManaged), which the driver's "
        "checkpoint does not keep: start it with ckpt-run --managed-memory=kept, or free that "
        "memory first",
        bytes));
  if (std::string name = code_facts().managed_variable; !name.empty())
    reasons.push_back(fmt::format(
        "the program's code has the managed variable {}, which the driver's checkpoint does not "
        "keep: use a __device__ variable and copies instead",
        name));
}

}  // namespace

void append_blockers(std::vector<std::string> &reasons) {
  append_managed_memory(reasons);
  append_noted_blockers(reasons);
}

}  // namespace ckpt::cuda
