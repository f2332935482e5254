// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/tenancy.h"

#include <thread>

#include "common/base/log.h"
#include "libckpt-ocl/client/gate.h"
#include "libckpt-ocl/client/info.h"
#include "manager-client/manager_client.h"

namespace ckpt::ocl {
namespace {

using Api = manager_client::ManagerClient::Api;

// What one question asks for at the least.
constexpr u64 kStep = 2u << 20;
// Somebody who is not managed may take what was free, between the answer and the call.
constexpr int kAttempts = 8;
constexpr std::chrono::milliseconds kAttemptPause{50};

u64 in_steps(u64 bytes) { return (bytes + kStep - 1) / kStep * kStep; }

// What the program has, and what the Manager was told of it. Objects die wherever the last command
// that uses them ends, under whatever lock, so releases are only noted there.
struct Account {
  std::mutex mutex;  // before the link's; from a change of `held` until it is told
  u64 held = 0;      // bytes of objects
  u64 told = 0;      // never less than `held`, but for what was granted and not used yet
  std::atomic<u64> released{0};  // of `held`, by objects that are gone

  // With the lock held: what has to be asked for before `bytes` more are taken.
  u64 growth(u64 bytes) {
    held -= released.exchange(0);
    return held + bytes > told ? in_steps(held + bytes) - told : 0;
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

// With the lock held, and what growth() said granted.
cl_int make_now(Mem &m, u64 bytes, const std::function<cl_int()> &make) {
  // Ahead of it on the way to the device.
  link().flush_releases();
  cl_int status = make();
  if (status != CL_SUCCESS) return status;
  m.counted = bytes;
  account().held += bytes;
  return status;
}

Attempt ask_and_make(manager_client::ManagerClient &t, Mem &m, u64 bytes,
                     const std::function<cl_int()> &make) {
  Account &a = account();
  auto missing = [&] {
    std::lock_guard lock(a.mutex);
    return a.growth(bytes);
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
  if (a.growth(bytes) <= growth) attempt = {Attempt::End::Made, make_now(m, bytes, make)};
  u64 before = std::exchange(a.told, in_steps(a.held));
  if (ticket)
    t.done(*ticket, a.told, Api::kOpenCl);
  else if (a.told != before)
    t.freed(a.told, Api::kOpenCl);
  return attempt;
}

}  // namespace

std::optional<std::string> take_place() {
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

void place_taken() {
  if (manager_client::ManagerClient *t = manager_client::get()) t->ready();
}

void tell_holder(u32 proxy) {
  if (manager_client::ManagerClient *t = manager_client::get()) t->held_by(proxy);
}

void tell_context_made() {
  if (manager_client::ManagerClient *t = manager()) t->context_made(Api::kOpenCl);
}

cl_int make_as_tenant(Mem &m, u64 bytes, const std::function<cl_int()> &make) {
  manager_client::ManagerClient *t = manager();
  if (t == nullptr || larger_than_any_object(*m.context, bytes)) return make();
  for (int failed = 0;;) {
    auto [end, status] = ask_and_make(*t, m, bytes, make);
    if (end == Attempt::End::TooLate) continue;
    bool again = end == Attempt::End::Made && status == CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (!again || ++failed == kAttempts) return status;
    gate().outside([] {
      std::this_thread::sleep_for(kAttemptPause);
      return true;
    });
  }
}

void released_as_tenant(const Mem &m) {
  if (m.counted > 0) account().released.fetch_add(m.counted);
}

bool releases_to_tell() { return account().released.load(std::memory_order_relaxed) >= kStep; }

// The proxy has released them when it has answered.
void tell_releases() {
  manager_client::ManagerClient *t = manager();
  if (t == nullptr) return;
  Account &a = account();
  u64 released = a.released.exchange(0);
  link().flush_releases();
  link().ask(Op::Nothing, 0, {});
  std::lock_guard lock(a.mutex);
  a.held -= released;
  if (u64 now = in_steps(a.held); now < a.told) {
    a.told = now;
    t->freed(a.told, Api::kOpenCl);
  }
}

}  // namespace ckpt::ocl
