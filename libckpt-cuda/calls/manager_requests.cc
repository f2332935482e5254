// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/calls/manager_requests.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>

#include "common/base/log.h"
#include "libckpt-cuda/calls/calls.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/served.h"

namespace ckpt::cuda {
namespace {

using manager_client::ManagerClient;

// Between the Manager's answer and the driver's call, a program that is not managed may take memory
// that was measured as free. Then the request is repeated.
constexpr int kAttempts = 8;
// Smaller device variables are not asked for one by one, but together with the next larger one.
constexpr u64 kLargeVariable = 1 << 20;

constexpr const char *kVisibleDevices = "CUDA_VISIBLE_DEVICES";

// Held from a change of the program's memory until that change is reported. Otherwise a report of
// another thread, made in between, would include it, and the Manager would count it twice.
std::mutex &report_mutex() {
  static std::mutex *const kMutex = new std::mutex;
  return *kMutex;
}

// Whether ckpt-run --managed started the program; constant, and read by every allocation.
bool has_manager() {
  static const bool kManaged = manager_client::get() != nullptr;
  return kManaged;
}

// The device variables of all loaded code, and whether its kernels use the device's heap. Guarded
// by report_mutex().
struct LoadedCode {
  struct Variables {
    CUcontext context;  // null: they belong to no context
    u64 bytes;
  };
  u64 at_start = 0;  // bytes of the variables in the files of the program
  u64 reported = 0;  // bytes that the Manager knows of
  bool heap = false;
  std::map<const void *, Variables> later;  // by module or library

  u64 bytes() const {
    auto add = [](u64 sum, const auto &entry) { return sum + entry.second.bytes; };
    return std::accumulate(later.begin(), later.end(), at_start, add);
  }
  void report(ManagerClient &client, u32 ticket) {
    reported = bytes();
    client.done_loading(ticket, served_bytes(), reported, heap);
  }
};
LoadedCode &loaded_code() {
  static LoadedCode *const kCode = new LoadedCode;
  return *kCode;
}

CUresult denied(const std::string &why) {
  log::warn("out of device memory: {}", why);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void log_exclusive(const std::string &why) {
  log::info("this program needs a device of its own, because its kernels use the device's heap: {}",
            why);
}

// MC-14: the first request is for the context alone, a further one follows for each variable.
ManagerClient::Place connect(ManagerClient &client) {
  ProgramCode code = program_code();
  if (code.device_heap) log_exclusive(code.reason);
  ManagerClient::Place place = client.connect(0, code.device_heap);
  u64 sum = 0, asked = 0;
  for (u64 bytes : code.variables) {
    sum += bytes;
    if (bytes < kLargeVariable || !place.denied.empty()) continue;
    asked = sum;
    place = client.connect(sum, code.device_heap);
  }
  if (sum > asked && place.denied.empty()) place = client.connect(sum, code.device_heap);
  std::lock_guard lock(report_mutex());
  loaded_code().at_start = sum;
  loaded_code().reported = sum;
  loaded_code().heap = code.device_heap;
  return place;
}

}  // namespace

CUresult acquire_device() {
  ManagerClient *client = manager_client::get();
  if (client == nullptr) return CUDA_SUCCESS;
  keep_no_memory();  // what is freed is reported, so that others get it
  ManagerClient::Place place = connect(*client);
  if (!place.denied.empty()) return denied(place.denied);
  if (place.aside) log::warn("this program's use of CUDA {}", ManagerClient::kAside);
  // The variable tells the driver, and that of the program's children.
  if (!place.gpu.empty()) ::setenv(kVisibleDevices, place.gpu.c_str(), 1);
  return CUDA_SUCCESS;
}

void report_started() {
  if (ManagerClient *client = manager_client::get()) client->ready();
}

void report_context_made() {
  if (ManagerClient *client = manager_client::get()) client->context_made();
}

void report_context_destroyed(CUcontext context) {
  ManagerClient *client = manager_client::get();
  if (client == nullptr) return;
  std::lock_guard lock(report_mutex());
  LoadedCode &code = loaded_code();
  if (std::erase_if(code.later, [&](auto &p) { return p.second.context == context; }) > 0)
    code.report(*client, 0);
  else
    client->freed(served_bytes());
}

void report_freed(u64 bytes) {
  if (bytes == 0 || !has_manager()) return;
  ManagerClient *client = manager_client::get();
  if (client == nullptr) return;
  std::lock_guard lock(report_mutex());
  client->freed(served_bytes());
}

void release_with_manager(u64 base) { report_freed(memory().release(base)); }

namespace {

CUresult make_with_ticket(ManagerClient &client, u32 ticket,
                          const std::function<CUresult()> &make) {
  std::lock_guard lock(report_mutex());
  CUresult e = g_refusal;
  if (e == CUDA_SUCCESS) e = make();
  client.done(ticket, served_bytes());
  return e;
}

}  // namespace

CUresult make_with_manager(u64 bytes, const std::function<CUresult()> &make) {
  ManagerClient *client = has_manager() ? manager_client::get() : nullptr;
  if (client == nullptr) return make();
  CUresult e = CUDA_ERROR_OUT_OF_MEMORY;
  for (int i = 0; i < kAttempts && e == CUDA_ERROR_OUT_OF_MEMORY; i++) {
    // The program may be evicted during the request, and resume on another device.
    Result<u32> ticket = gate().outside([&] { return client->ask(bytes); });
    if (!ticket) return denied(ticket.error().what);
    e = make_with_ticket(*client, *ticket, make);
  }
  return e;
}

CUresult allocate_with_manager(const ContextInfo &context, u64 bytes, u64 &out) {
  auto make = [&] { return with_memory([&] { return memory().allocate(context, bytes, out); }); };
  if (!has_manager()) return make();
  if (memory().allocate_from_blocks(context, bytes, out)) return CUDA_SUCCESS;
  return make_with_manager(memory().bytes_to_reserve(context, bytes), make);
}

// ---- code

ManagedLoad::ManagedLoad(bool of_context)
    : client_(manager_client::get()), of_context_(of_context) {}

CUresult ManagedLoad::ask(NewCode &code) {
  if (client_ == nullptr) return CUDA_SUCCESS;
  ProgramCode found = code.examine();
  bytes_ = std::accumulate(found.variables.begin(), found.variables.end(), u64{0});
  u64 needed = 0;
  {
    std::lock_guard lock(report_mutex());
    heap_ = found.device_heap && !loaded_code().heap;
    needed = loaded_code().bytes() + bytes_ - loaded_code().reported;
  }
  if (!heap_ && needed < kLargeVariable) return CUDA_SUCCESS;
  if (heap_) log_exclusive(found.reason);
  Result<u32> ticket = gate().outside([&] { return client_->ask_to_load(needed, heap_); });
  if (!ticket) return denied(ticket.error().what);
  ticket_ = *ticket;
  if (g_refusal == CUDA_SUCCESS) return CUDA_SUCCESS;
  done(nullptr);
  return g_refusal;
}

void ManagedLoad::done(const void *handle) {
  if (client_ == nullptr) return;
  ContextInfo context;
  if (of_context_ && handle != nullptr) current_context(context);
  std::lock_guard lock(report_mutex());
  LoadedCode &code = loaded_code();
  if (handle != nullptr && bytes_ > 0) code.later[handle] = {context.handle, bytes_};
  code.heap = code.heap || (heap_ && handle != nullptr);
  if (ticket_) code.report(*client_, *ticket_);
}

void report_unloaded(const void *handle) {
  ManagerClient *client = manager_client::get();
  if (client == nullptr) return;
  std::lock_guard lock(report_mutex());
  if (loaded_code().later.erase(handle) > 0) loaded_code().report(*client, 0);
}

}  // namespace ckpt::cuda
