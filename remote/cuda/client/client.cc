// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/client.h"

#include <set>
#include <string>

#include "common/base/log.h"

namespace ckpt::remote::cuda {
namespace {

std::atomic<bool> initialised{false};
std::atomic<bool> failed{false};

// After these the driver fails every call that follows.
bool is_sticky(CUresult e) {
  return (e >= CUDA_ERROR_ILLEGAL_ADDRESS && e <= CUDA_ERROR_LAUNCH_FAILED &&
          e != CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES && e != CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE &&
          e != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
          e != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) ||
         e == CUDA_ERROR_ECC_UNCORRECTABLE;
}

}  // namespace

CUresult ready() {
  if (!initialised.load(std::memory_order_acquire)) return CUDA_ERROR_NOT_INITIALIZED;
  return link().lost();
}
void set_ready() { initialised = true; }

Ledger &ledger() {
  static Ledger *const kLedger = new Ledger;
  return *kLedger;
}

void Ledger::add(u64 number, u64 context) {
  std::lock_guard lock(mutex_);
  contexts_.emplace(number, context);
}

void Ledger::end(u64 number) {
  std::lock_guard lock(mutex_);
  contexts_.erase(number);
  devices_.erase(number);
}

void Ledger::end_all_of(u64 context) {
  std::lock_guard lock(mutex_);
  std::erase_if(contexts_, [&](const auto &o) {
    return o.second == context && kind_of(o.first) != Kind::Context &&
           kind_of(o.first) != Kind::Library && kind_of(o.first) != Kind::Kernel;
  });
}

bool Ledger::lives(u64 number) const {
  std::lock_guard lock(mutex_);
  return contexts_.contains(number);
}

std::optional<u64> Ledger::context_of(u64 number) const {
  std::lock_guard lock(mutex_);
  auto found = contexts_.find(number);
  return found == contexts_.end() ? std::nullopt : std::optional(found->second);
}

void Ledger::set_device(u64 context, CUdevice device) {
  std::lock_guard lock(mutex_);
  devices_[context] = device;
}

std::optional<CUdevice> Ledger::device_of(u64 context) const {
  std::lock_guard lock(mutex_);
  auto found = devices_.find(context);
  return found == devices_.end() ? std::nullopt : std::optional(found->second);
}

bool Ledger::knows_shape(u64 shape) const {
  std::lock_guard lock(mutex_);
  return shapes_.contains(shape);
}

void Ledger::add_shape(u64 shape) {
  std::lock_guard lock(mutex_);
  shapes_.insert(shape);
}

bool kernel_failed() { return failed.load(std::memory_order_relaxed); }

CUresult note_error(CUresult e) {
  if (is_sticky(e)) failed = true;
  return e;
}

bool can_send(u64 stream) {
  u64 context = current_context();
  if (kernel_failed() || context == 0) return false;
  return stream <= kSpecialStreams || ledger().context_of(stream) == context;
}

CUresult refuse(const char *entry, const char *why) {
  static std::mutex mutex;
  static std::set<std::string> *const kNamed = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (kNamed->insert(entry).second)
    log::warn("{} is refused on a CUDA device of another node: {}", entry, why);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace ckpt::remote::cuda
