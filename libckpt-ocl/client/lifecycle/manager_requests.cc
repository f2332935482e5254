// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/lifecycle/manager_requests.h"

#include <thread>

#include "common/base/log.h"
#include "common/base/rounded_up.h"
#include "libckpt-ocl/client/link/gate.h"
#include "libckpt-ocl/client/link/link.h"
#include "libckpt-ocl/client/object/info.h"
#include "manager-client/manager_client.h"

namespace ckpt::ocl {
namespace {

using Api = manager_client::ManagerClient::Api;

// The smallest amount that is requested.
constexpr u64 kReservationStep = 2u << 20;
// A process without a Manager may take the memory between the Manager's answer and the allocation.
constexpr int kAttempts = 8;
constexpr std::chrono::milliseconds kAttemptPause{50};

u64 in_steps(u64 bytes) { return rounded_up(bytes, kReservationStep); }

// The program's device memory and what the Manager knows of it. An object dies wherever the last
// command that uses it finishes, under any lock; there the bytes are only added to `released`.
struct Account {
  std::mutex mutex;   // locked before the link's, from a change of `allocated` until it is reported
  u64 allocated = 0;  // bytes of objects
  u64 reserved = 0;   // at least `allocated`, except for a granted request that is not yet used
  std::atomic<u64> released{0};  // bytes of `allocated` that belong to destroyed objects

  // With the lock held: what must be requested before `bytes` more are allocated.
  u64 bytes_to_reserve(u64 bytes) {
    allocated -= released.exchange(0);
    return allocated + bytes > reserved ? in_steps(allocated + bytes) - reserved : 0;
  }
};

Account &account() {
  static Account *const kAccount = new Account;
  return *kAccount;
}

// Null if no Manager manages this process. The child of a fork has no OpenCL and must not start an
// agent, so it gets null, too.
manager_client::ManagerClient *manager() {
  return link().usable() ? manager_client::get() : nullptr;
}

struct Attempt {
  // TooLate: other threads of the program have used up the reservation.
  enum class End : u8 { Denied, TooLate, Made } end;
  cl_int status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
};

// The driver refuses such an object with an error of its own, so no program has to be evicted for
// it.
bool larger_than_any_object(const Context &c, u64 bytes) {
  return std::ranges::all_of(c.devices, [&](Device *d) {
    cl_ulong most = 0;
    remote_info(InfoOf::Device, *d, 0, CL_DEVICE_MAX_MEM_ALLOC_SIZE,
                Answer{sizeof most, &most, nullptr});
    return bytes > most;
  });
}

// With the lock held and the bytes reserved.
cl_int create_reserved(Mem &m, u64 bytes, const std::function<cl_int()> &make) {
  link().flush_releases();  // the released memory must be free before the new object takes it
  cl_int status = make();
  if (status != CL_SUCCESS) return status;
  m.managed_bytes = bytes;
  account().allocated += bytes;
  return status;
}

// With the lock held: tells the Manager what the program has now. A request must be answered, any
// other change is reported if there is one.
void report(manager_client::ManagerClient &t, std::optional<u32> ticket) {
  Account &a = account();
  u64 before = std::exchange(a.reserved, in_steps(a.allocated));
  if (ticket)
    t.done(*ticket, a.reserved, Api::kOpenCl);
  else if (a.reserved != before)
    t.freed(a.reserved, Api::kOpenCl);
}

Attempt reserve_and_create(manager_client::ManagerClient &t, Mem &m, u64 bytes,
                           const std::function<cl_int()> &make) {
  Account &a = account();
  std::unique_lock lock(a.mutex);
  u64 missing = a.bytes_to_reserve(bytes);
  lock.unlock();
  std::optional<u32> ticket;
  if (missing > 0) {
    Result<u32> granted = gate().outside([&] { return t.ask(missing, Api::kOpenCl); });
    if (!granted) {
      log::warn("out of device memory: {}", granted.error().what);
      return {Attempt::End::Denied};
    }
    ticket = *granted;
  }
  lock.lock();
  Attempt attempt{Attempt::End::TooLate};
  if (a.bytes_to_reserve(bytes) <= missing)
    attempt = {Attempt::End::Made, create_reserved(m, bytes, make)};
  report(t, ticket);
  return attempt;
}

}  // namespace

std::optional<std::string> acquire_device() {
  manager_client::ManagerClient *t = manager_client::get();
  if (t == nullptr) return "";
  manager_client::ManagerClient::Place place = t->connect(0, false, Api::kOpenCl);
  if (!place.denied.empty()) {
    log::error("the Manager denied this program an OpenCL device: {}", place.denied);
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

// The round trip ends when the proxy has released the objects.
void report_releases() {
  manager_client::ManagerClient *t = manager();
  if (t == nullptr) return;
  Account &a = account();
  u64 released = a.released.exchange(0);
  link().flush_releases();
  link().round_trip(Op::RoundTrip, 0, {});
  std::lock_guard lock(a.mutex);
  a.allocated -= released;
  if (u64 now = in_steps(a.allocated); now < a.reserved) {
    a.reserved = now;
    t->freed(a.reserved, Api::kOpenCl);
  }
}

}  // namespace ckpt::ocl
