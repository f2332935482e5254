// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/uses.h"

#include <set>

#include "common/log.h"
#include "libckpt-cuda/calls.h"

namespace ckpt::cuda {
namespace {

// Never destroyed, as everything that a driver's thread may call.
struct Books {
  std::mutex mutex;
  std::map<const char *, Id> uses;
  std::set<Id> refused;
};
Books &books() {
  static Books *const kBooks = new Books;
  return *kBooks;
}

}  // namespace

Managed &managed() {
  static Managed *const kManaged = new Managed;
  return *kManaged;
}

void Managed::insert(CUdeviceptr p, u64 bytes) {
  std::lock_guard lock(mutex_);
  any_ = true;
  all_[p] = bytes;
}

void Managed::erase(CUdeviceptr p) {
  if (!any_) return;
  std::lock_guard lock(mutex_);
  all_.erase(p);
}

u64 Managed::bytes() const {
  std::lock_guard lock(mutex_);
  u64 sum = 0;
  for (auto &[p, bytes] : all_) sum += bytes;
  return sum;
}

void note_use(Id id, const char *what) {
  std::lock_guard lock(books().mutex);
  books().uses.emplace(what, id);
}

CUresult refuse(Id id, const char *why) {
  std::lock_guard lock(books().mutex);
  if (books().refused.insert(id).second)
    log::warn("{} is refused under ckpt-run: {}", entry_info(id).symbol, why);
  return CUDA_ERROR_NOT_SUPPORTED;
}

void reasons_against(std::vector<std::string> &reasons) {
  if (u64 bytes = managed().bytes())
    reasons.push_back(fmt::format(
        "{} bytes of managed memory (cuMemAllocManaged) live, which the driver's checkpoint does "
        "not keep: use cuMemAlloc, or free it first",
        bytes));
  if (capturing())
    reasons.push_back("a stream is being captured into a graph: try again when that is over");
  std::lock_guard lock(books().mutex);
  for (auto &[what, id] : books().uses)
    reasons.push_back(
        fmt::format("{} ({}), which cannot be checkpointed", what, entry_info(id).symbol));
}

}  // namespace ckpt::cuda
