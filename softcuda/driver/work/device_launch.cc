// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/work/device_launch.h"

#include <iterator>

namespace ckpt::softcuda::driver {
namespace {

// A launch costs memory until it runs, and a kernel may loop.
constexpr size_t kMaxChildren = 1 << 20;

Function *function_of_symbol(const Module &m, const vm::Symbol *kernel) {
  for (const auto &[name, f] : m.functions)
    if (f->symbol == kernel) return f.get();
  return nullptr;
}

}  // namespace

std::string GridServices::launch(vm::DeviceLaunch child) {
  Function *f = function_of_symbol(*parent_.function->module, child.kernel);
  if (f == nullptr) return "its module is not loaded";
  size_t bytes = child.params.size();
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, child.params.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  Launch l;
  if (CUresult e =
          make_launch(context_, f, child.grid, child.block, child.shared, nullptr, extra, false, l);
      e != CUDA_SUCCESS)
    return fmt::format(
        "error {} for a grid of {} blocks of {} threads with {} bytes of shared memory",
        static_cast<int>(e), child.grid.count(), child.block.count(), child.shared);
  std::lock_guard lock(mutex_);
  if (children_.size() + tail_.size() >= kMaxChildren) return "too many launches are pending";
  (child.tail ? tail_ : children_).push_back(std::move(l));
  return {};
}

void GridServices::take_children(std::vector<Launch> &stack) {
  for (std::vector<Launch> *list : {&tail_, &children_})
    stack.insert(stack.end(), std::move_iterator(list->rbegin()), std::move_iterator(list->rend()));
}

}  // namespace ckpt::softcuda::driver
