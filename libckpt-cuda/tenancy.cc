// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/tenancy.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>

#include "common/base/log.h"
#include "libckpt-cuda/calls.h"
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
  static const bool kManaged = manager_client::get() != nullptr;
  return kManaged;
}

// The device variables of all code, and whether its kernels use the heap. Behind telling().
struct Code {
  struct Piece {
    CUcontext context;  // null: of none
    u64 bytes;
  };
  u64 at_start = 0, told = 0;
  bool heap = false;
  std::map<const void *, Piece> later;  // by handle; only pieces that have variables

  u64 variables() const {
    auto add = [](u64 sum, const auto &piece) { return sum + piece.second.bytes; };
    return std::accumulate(later.begin(), later.end(), at_start, add);
  }
  void tell(manager_client::ManagerClient &t, u32 ticket) {
    told = variables();
    t.done_loading(ticket, memory().held_bytes(), told, heap);
  }
};
Code &code_books() {
  static Code *const kCode = new Code;
  return *kCode;
}

CUresult denied(const std::string &why) {
  log::warn("out of device memory: {}", why);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// The paper's order: first for the context, then once more for each variable (MC-14).
manager_client::ManagerClient::Place connect(manager_client::ManagerClient &t) {
  ProgramCode code = program_code();
  if (code.heap) log::info("this program gets a device for itself: {}", code.why);
  manager_client::ManagerClient::Place place = t.connect(0, code.heap);
  u64 sum = 0, told = 0;
  for (u64 bytes : code.variables) {
    sum += bytes;
    if (bytes < kLargeVariable || !place.denied.empty()) continue;
    place = t.connect(told = sum, code.heap);
  }
  if (sum > told && place.denied.empty()) place = t.connect(sum, code.heap);
  std::lock_guard lock(telling());
  code_books().at_start = code_books().told = sum;
  code_books().heap = code.heap;
  return place;
}

}  // namespace

CUresult take_place() {
  manager_client::ManagerClient *t = manager_client::get();
  if (t == nullptr) return CUDA_SUCCESS;
  manager_client::ManagerClient::Place place = connect(*t);
  if (!place.denied.empty()) return denied(place.denied);
  if (place.aside)
    log::warn("this program's use of CUDA {}", manager_client::ManagerClient::kAside);
  // As the driver's own variable, and its children's.
  if (!place.gpu.empty()) ::setenv(kVisibleDevices, place.gpu.c_str(), 1);
  return CUDA_SUCCESS;
}

void place_taken() {
  if (manager_client::ManagerClient *t = manager_client::get()) t->ready();
}

void tell_context_made() {
  if (manager_client::ManagerClient *t = manager_client::get()) t->context_made();
}

void tell_freed(CUcontext context) {
  manager_client::ManagerClient *t = manager_client::get();
  if (t == nullptr) return;
  std::lock_guard lock(telling());
  Code &code = code_books();
  if (std::erase_if(code.later, [&](auto &p) { return p.second.context == context; }) > 0)
    return code.tell(*t, 0);
  t->freed(memory().held_bytes());
}

void release_as_tenant(u64 base) {
  u64 given = 0;
  memory().release(base, &given);
  if (given == 0 || !has_manager()) return;
  manager_client::ManagerClient *t = manager_client::get();
  if (t == nullptr) return;
  std::lock_guard lock(telling());
  t->freed(memory().held_bytes());
}

CUresult allocate_as_tenant(const ContextInfo &context, u64 bytes, u64 &out) {
  if (!has_manager()) return memory().allocate(context, bytes, out);
  u64 growth = 0;
  CUresult e = memory().allocate(context, bytes, out, &growth);
  if (growth == 0) return e;
  manager_client::ManagerClient *t = manager_client::get();
  if (t == nullptr) return memory().allocate(context, bytes, out);
  e = CUDA_ERROR_OUT_OF_MEMORY;
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

// ---- code

ManagedLoad::ManagedLoad(bool of_context)
    : tenant_(manager_client::get()), of_context_(of_context) {}

CUresult ManagedLoad::ask(NewCode &code) {
  if (tenant_ == nullptr) return CUDA_SUCCESS;
  ProgramCode tells = code.tells();
  bytes_ = std::accumulate(tells.variables.begin(), tells.variables.end(), u64{0});
  u64 growth = 0;
  {
    std::lock_guard lock(telling());
    heap_ = tells.heap && !code_books().heap;
    growth = code_books().variables() + bytes_ - code_books().told;
  }
  if (!heap_ && growth < kLargeVariable) return CUDA_SUCCESS;
  if (heap_) log::info("this program gets a device for itself: {}", tells.why);
  Result<u32> ticket = gate().outside([&] { return tenant_->ask_to_load(growth, heap_); });
  if (!ticket) return denied(ticket.error().what);
  ticket_ = *ticket;
  if (!g_devices_lost) return CUDA_SUCCESS;
  done(nullptr);
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

void ManagedLoad::done(const void *handle) {
  if (tenant_ == nullptr) return;
  ContextInfo context;
  if (of_context_ && handle != nullptr) current_context(context);
  std::lock_guard lock(telling());
  Code &code = code_books();
  if (handle != nullptr && bytes_ > 0) code.later[handle] = {context.handle, bytes_};
  code.heap = code.heap || (heap_ && handle != nullptr);
  if (ticket_) code.tell(*tenant_, *ticket_);
}

void unload_as_tenant(const void *handle) {
  manager_client::ManagerClient *t = manager_client::get();
  if (t == nullptr) return;
  std::lock_guard lock(telling());
  if (code_books().later.erase(handle) > 0) code_books().tell(*t, 0);
}

}  // namespace ckpt::cuda
