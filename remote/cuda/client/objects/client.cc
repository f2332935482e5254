// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/objects/client.h"

#include <mutex>
#include <set>
#include <string>

#include "common/base/log.h"

namespace ckpt::remote::cuda {
namespace {

std::atomic<bool> initialised{false};
std::atomic<bool> failed{false};
std::atomic<ObjectEnded> at_end{nullptr};

// After these the driver fails every call that follows.
bool is_sticky(CUresult e) {
  return (e >= CUDA_ERROR_ILLEGAL_ADDRESS && e <= CUDA_ERROR_LAUNCH_FAILED &&
          e != CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES && e != CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE &&
          e != CUDA_ERROR_CONTEXT_IS_DESTROYED && e != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
          e != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) ||
         e == CUDA_ERROR_ECC_UNCORRECTABLE;
}

}  // namespace

CUresult ready() {
  if (!initialised.load(std::memory_order_acquire)) return CUDA_ERROR_NOT_INITIALIZED;
  return link().lost();
}
void set_ready(ObjectEnded ended) {
  at_end = ended;
  initialised = true;
}

u64 owner_of(Kind made, u64 first, u64 context) {
  if (made == Kind::Context || made == Kind::Pool) return 0;
  Kind kind = kind_of(first);
  bool code = kind == Kind::Module || kind == Kind::Library || kind == Kind::Kernel;
  return code ? first : context;
}

Site site_beside(u64 context) {
  u64 current = current_context();
  bool elsewhere =
      link().is_split() && context != 0 && link().is_here(context) != link().is_here(current);
  return elsewhere ? context : current;
}

Site site_of_handle(u64 number) {
  u64 context = current_context();
  if (!link().is_split()) return context;
  Kind kind = kind_of(number);
  if (kind == Kind::Context)
    if (std::optional<CUdevice> device = ledger().device_of(number)) return site_of_device(*device);
  if (kind == Kind::Pool) {
    Site made = ledger().site_of(number);
    return {made.by, context, made.device};
  }
  bool of_all = kind == Kind::Library || kind == Kind::Kernel;
  return of_all ? context : site_beside(ledger().context_of(number).value_or(0));
}

void object_ended(u64 number) {
  for (u64 ended : ledger().end(number)) at_end.load(std::memory_order_acquire)(ended);
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

u64 context_of_stream(u64 stream) {
  if (stream <= kSpecialStreams) return current_context();
  return kind_of(stream) == Kind::Stream ? ledger().context_of(stream).value_or(0) : 0;
}

CUresult check_stream(u64 stream) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (current_context() == 0) return CUDA_ERROR_INVALID_CONTEXT;
  return context_of_stream(stream) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

Failure device_failure(std::string what, CUresult e) {
  if (link().lost() != CUDA_SUCCESS)
    return fail("the connection to the device is lost: {}", link().why_lost());
  const char *name = nullptr;
  (void)entry_cuGetErrorName(e, &name);
  return fail("{}: {}", what, name ? name : "unknown error");
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
