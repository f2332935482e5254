// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/lifecycle/manager_requests.h"

#include <thread>

#include "common/base/log.h"
#include "libckpt-ocl/client/link/gate.h"
#include "libckpt-ocl/client/object/info.h"
#include "manager-client/manager_client.h"

namespace ckpt::ocl {
namespace {

using Api = manager_client::ManagerClient::Api;

// What one question asks for at the least.
constexpr u64 kReservationStep = 2u << 20;
// Somebody who is not managed may take what was free, between the answer and the call.
constexpr int kAttempts = 8;
constexpr std::chrono::milliseconds kAttemptPause{50};

u64 in_steps(u64 bytes) {
  return (bytes + kReservationStep - 1) / kReservationStep * kReservationStep;
}

// What the program has, and what the Manager was reported of it. Objects die wherever the last
// command that uses them ends, under whatever lock, so releases are only noted there.
struct Account {
  std::mutex mutex;   // before the link's; from a change of `allocated` until it is reported
  u64 allocated = 0;  // bytes of objects
  u64 reported = 0;   // never less than `allocated`, but for what was granted and not used yet
  std::atomic<u64> released{0};  // of `allocated`, by objects that are gone

  // With the lock allocated: what has to be asked for before `bytes` more are taken.
  u64 bytes_to_reserve(u64 bytes) {
    allocated -= released.exchange(0);
    return allocated + bytes > reported ? in_steps(allocated + bytes) - reported : 0;
  }
};

Account &account() {
  static Account *const kAccount = new Account;
  return *kAccount;
}

// Null: nobody manages this process. The child of a fork has no OpenCL, and must not get an agent.
manager_client::ManagerClient *manager() {
  return link().usable() ? manager_client::get() : nullptr;
}

struct Attempt {
  enum class End : u8 { Denied, TooLate, Made } end;  // TooLate: other threads have taken it
  cl_int status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
};

// Its error is another one then, and nobody need make room for it.
bool larger_than_any_object(const Context &c, u64 bytes) {
  return std::ranges::all_of(c.devices, [&](Device *d) {
    cl_ulong most = 0;
    remote_info(InfoOf::Device, *d, 0, CL_DEVICE_MAX_MEM_ALLOC_SIZE,
                Answer{sizeof most, &most, nullptr});
    return bytes > most;
  });
}

// With the lock allocated, and what bytes_to_reserve() said granted.
cl_int create_reserved(Mem &m, u64 bytes, const std::function<cl_int()> &make) {
  // Ahead of it on the way to the device.
  link().flush_releases();
  cl_int status = make();
  if (status != CL_SUCCESS) return status;
  m.managed_bytes = bytes;
  account().allocated += bytes;
  return status;
}

Attempt reserve_and_create(manager_client::ManagerClient &t, Mem &m, u64 bytes,
                           const std::function<cl_int()> &make) {
  Account &a = account();
  auto missing = [&] {
    std::lock_guard lock(a.mutex);
    return a.bytes_to_reserve(bytes);
  };
  u64 growth = missing();
  std::optional<u32> ticket;
  if (growth > 0) {
    Result<u32> granted = gate().outside([&] { return t.ask(growth, Api::kOpenCl); });
    if (!granted) {
      log::warn("out of device memory: {}", granted.error().what);
      return {Attempt::End::Denied};
    }
    ticket = *granted;
  }
  std::lock_guard lock(a.mutex);
  Attempt attempt{Attempt::End::TooLate};
  if (a.bytes_to_reserve(bytes) <= growth)
    attempt = {Attempt::End::Made, create_reserved(m, bytes, make)};
  u64 before = std::exchange(a.reported, in_steps(a.allocated));
  if (ticket)
    t.done(*ticket, a.reported, Api::kOpenCl);
  else if (a.reported != before)
    t.freed(a.reported, Api::kOpenCl);
  return attempt;
}

}  // namespace

std::optional<std::string> acquire_device() {
  manager_client::ManagerClient *t = manager_client::get();
  if (t == nullptr) return "";
  manager_client::ManagerClient::Place place = t->connect(0, false, Api::kOpenCl);
  if (!place.denied.empty()) {
    log::error("this program gets no OpenCL device: {}", place.denied);
    return std::nullopt;
  }
  if (place.aside)
    log::warn("this program's use of OpenCL {}", manager_client::ManagerClient::kAside);
  return place.gpu;
}

void device_acquired() {
  if (manager_client::ManagerClient *t = manager_client::get()) t->ready();
}

void report_memory_owner(u32 proxy) {
  if (manager_client::ManagerClient *t = manager_client::get()) t->held_by(proxy);
}

void report_context_created() {
  if (manager_client::ManagerClient *t = manager()) t->context_made(Api::kOpenCl);
}

cl_int create_managed(Mem &m, u64 bytes, const std::function<cl_int()> &make) {
  manager_client::ManagerClient *t = manager();
  if (t == nullptr || larger_than_any_object(*m.context, bytes)) return make();
  for (int failed = 0;;) {
    auto [end, status] = reserve_and_create(*t, m, bytes, make);
    if (end == Attempt::End::TooLate) continue;
    bool again = end == Attempt::End::Made && status == CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (!again || ++failed == kAttempts) return status;
    gate().outside([] {
      std::this_thread::sleep_for(kAttemptPause);
      return true;
    });
  }
}

void release_managed(const Mem &m) {
  if (m.managed_bytes > 0) account().released.fetch_add(m.managed_bytes);
}

bool releases_to_report() {
  return account().released.load(std::memory_order_relaxed) >= kReservationStep;
}

// The proxy has released them when it has answered.
void report_releases() {
  manager_client::ManagerClient *t = manager();
  if (t == nullptr) return;
  Account &a = account();
  u64 released = a.released.exchange(0);
  link().flush_releases();
  link().round_trip(Op::RoundTrip, 0, {});
  std::lock_guard lock(a.mutex);
  a.allocated -= released;
  if (u64 now = in_steps(a.allocated); now < a.reported) {
    a.reported = now;
    t->freed(a.reported, Api::kOpenCl);
  }
}

}  // namespace ckpt::ocl
