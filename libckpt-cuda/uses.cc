// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/uses.h"

#include <cstdlib>
#include <set>

#include "common/base/log.h"
#include "libckpt-cuda/calls.h"
#include "libckpt-cuda/code.h"

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

bool Managed::wanted_on_host() {
  static const bool kWanted = std::getenv("CKPT_CUDA_MANAGED_ON_HOST") != nullptr;
  return kWanted;
}

void Managed::insert(CUdeviceptr p, u64 bytes, bool on_host) {
  std::lock_guard lock(mutex_);
  any_ = true;
  all_[p] = {bytes, on_host};
}

bool Managed::erase(CUdeviceptr p) {
  if (!any_) return false;
  std::lock_guard lock(mutex_);
  auto it = all_.find(p);
  if (it == all_.end()) return false;
  bool on_host = it->second.on_host;
  all_.erase(it);
  return on_host;
}

bool Managed::on_host(CUdeviceptr p) const {
  if (!any_) return false;
  std::lock_guard lock(mutex_);
  auto it = all_.upper_bound(p);
  if (it == all_.begin()) return false;
  --it;
  return it->second.on_host && p - it->first < it->second.bytes;
}

u64 Managed::bytes_of_driver() const {
  std::lock_guard lock(mutex_);
  u64 sum = 0;
  for (auto &[p, piece] : all_) sum += piece.on_host ? 0 : piece.bytes;
  return sum;
}

bool managed_on_host(CUdeviceptr p) { return managed().on_host(p); }

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
  if (u64 bytes = managed().bytes_of_driver())
    reasons.push_back(fmt::format(
        "{} bytes of managed memory (cuMemAllocManaged) live, which the driver's checkpoint does "
        "not keep: start the program with ckpt-run --managed-on-host, or free it first",
        bytes));
  if (std::string name = code_facts().managed_variable; !name.empty())
    reasons.push_back(fmt::format(
        "the program's code has the managed variable {}, which the driver's checkpoint does not "
        "keep: use a __device__ variable and copies",
        name));
  if (capturing())
    reasons.push_back("a stream is being captured into a graph: try again when that is over");
  std::lock_guard lock(books().mutex);
  for (auto &[what, id] : books().uses)
    reasons.push_back(
        fmt::format("{} ({}), which cannot be checkpointed", what, entry_info(id).symbol));
}

}  // namespace ckpt::cuda
