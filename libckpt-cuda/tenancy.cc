// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/tenancy.h"

#include <cstdlib>
#include <mutex>

#include "agent/tenant.h"
#include "common/log.h"
#include "libckpt-cuda/calls.h"
#include "libckpt-cuda/code.h"
#include "libckpt-cuda/memory.h"

namespace ckpt::cuda {
namespace {

// Somebody who is not managed may take what was measured free, between the answer and the call.
constexpr int kAttempts = 8;
// Smaller variables are asked for together with the next larger one.
constexpr u64 kLargeVariable = 1 << 20;

constexpr const char *kVisibleDevices = "CUDA_VISIBLE_DEVICES";

// Held from a change of what the program has until it is told: what one thread has allocated and
// not told yet would be counted twice in another one's word.
std::mutex &telling() {
  static std::mutex *const kMutex = new std::mutex;
  return *kMutex;
}

// Said once and for ever by ckpt-run; asked by every allocation.
bool has_manager() {
  static const bool kManaged = tenant() != nullptr;
  return kManaged;
}

CUresult denied(const std::string &why) {
  log::warn("out of device memory: {}", why);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// The paper's order: first for the context, then once more for each variable (MC-14).
Tenant::Place connect(Tenant &t) {
  ProgramCode code = program_code();
  if (code.heap) log::info("this program gets a device for itself: {}", code.why);
  Tenant::Place place = t.connect(0, code.heap);
  u64 sum = 0, told = 0;
  for (u64 bytes : code.variables) {
    sum += bytes;
    if (bytes < kLargeVariable || !place.denied.empty()) continue;
    place = t.connect(told = sum, code.heap);
  }
  if (sum > told && place.denied.empty()) place = t.connect(sum, code.heap);
  return place;
}

}  // namespace

CUresult take_place() {
  Tenant *t = tenant();
  if (t == nullptr) return CUDA_SUCCESS;
  Tenant::Place place = connect(*t);
  if (!place.denied.empty()) return denied(place.denied);
  if (place.aside) log::warn("this program's use of CUDA {}", Tenant::kAside);
  // As the driver's own variable, and its children's.
  if (!place.gpu.empty()) ::setenv(kVisibleDevices, place.gpu.c_str(), 1);
  return CUDA_SUCCESS;
}

void place_taken() {
  if (Tenant *t = tenant()) t->ready();
}

void tell_context_made() {
  if (Tenant *t = tenant()) t->context_made();
}

void tell_freed() {
  Tenant *t = tenant();
  if (t == nullptr) return;
  std::lock_guard lock(telling());
  t->freed(memory().held_bytes());
}

void release_as_tenant(u64 base) {
  if (!has_manager()) {
    memory().release(base);
    return;
  }
  std::lock_guard lock(telling());
  u64 before = memory().held_bytes();
  memory().release(base);
  Tenant *t = memory().held_bytes() < before ? tenant() : nullptr;
  if (t != nullptr) t->freed(memory().held_bytes());
}

CUresult allocate_as_tenant(const ContextInfo &context, u64 bytes, u64 &out) {
  if (!has_manager()) return memory().allocate(context, bytes, out);
  Tenant *t = nullptr;
  u64 growth = memory().growth(context, bytes);
  if (growth > 0) t = tenant();
  if (t == nullptr) return memory().allocate(context, bytes, out);
  CUresult e = CUDA_ERROR_OUT_OF_MEMORY;
  for (int i = 0; i < kAttempts && e == CUDA_ERROR_OUT_OF_MEMORY; i++) {
    // The program may be evicted now, and come back on another device.
    Result<u32> ticket = gate().outside([&] { return t->ask(growth); });
    if (!ticket) return denied(ticket.error().what);
    std::lock_guard lock(telling());
    e = g_devices_lost ? CUDA_ERROR_DEVICE_UNAVAILABLE : memory().allocate(context, bytes, out);
    t->done(*ticket, memory().held_bytes());
  }
  return e;
}

}  // namespace ckpt::cuda
