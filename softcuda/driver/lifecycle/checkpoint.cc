// SPDX-License-Identifier: Apache-2.0
//
// cuCheckpointProcess*, for this process or another one.
//
//     RUNNING -- lock --> LOCKED -- checkpoint --> CHECKPOINTED
//        <---- unlock ----   <----- restore -----------
//
// The broker carries orders to other processes. A checkpointed process has no connection to the
// broker, because CRIU refuses to dump a process with a connected socket. It looks for a wake file
// instead, which has its PID in the name and lies next to the broker's socket, and connects when
// the file is there.
#include "softcuda/driver/lifecycle/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "common/base/unique_fd.h"
#include "softcuda/broker/away.h"
#include "softcuda/driver/lifecycle/restore_map.h"
#include "softcuda/driver/lifecycle/together.h"
#include "softcuda/driver/memory/vmm.h"
#include "softcuda/driver/state/device_ranges.h"
#include "softcuda/driver/state/ipc.h"
#include "softcuda/driver/state/strict.h"

namespace ckpt::softcuda::driver {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWakePause{5};
constexpr milliseconds kWakeTimeout{3000};

std::mutex mutex;
CUprocessState state = CU_PROCESS_STATE_RUNNING;
// Strict: a Restore has failed for want of memory. The process stays CHECKPOINTED, and every
// further Restore fails with 304 (NVIDIA/cuda-checkpoint#44, driver 580).
bool lost = false;
std::vector<broker::DeviceInfo> devices_before;  // all of the machine, as of the last checkpoint

void refuse_calls(bool on) {
  if (strict()) process().gate.refuse(on);
}

CUresult lock_here(u32 timeout) {
  REQUIRE(wait_for_others(milliseconds(timeout)), CUDA_ERROR_NOT_READY);
  std::lock_guard guard(mutex);
  REQUIRE(state == CU_PROCESS_STATE_RUNNING, CUDA_ERROR_ILLEGAL_STATE);
  REQUIRE(process().gate.close(milliseconds(timeout)), CUDA_ERROR_NOT_READY);
  state = CU_PROCESS_STATE_LOCKED;
  g_driver_away = strict();
  return CUDA_SUCCESS;
}

CUresult unlock_here() {
  std::lock_guard guard(mutex);
  REQUIRE(state == CU_PROCESS_STATE_LOCKED, CUDA_ERROR_ILLEGAL_STATE);
  state = CU_PROCESS_STATE_RUNNING;
  g_driver_away = false;
  process().gate.open();
  return CUDA_SUCCESS;
}

// A real driver checkpoints neither managed memory nor memory that it shares by cuIpc* (README of
// NVIDIA/cuda-checkpoint), so the software device refuses them, too.
CUresult check_memory() {
  for (const Allocation &a : process().memory->all())
    if (a.kind == MemoryKind::Managed) {
      warn("managed memory (cudaMallocManaged, __managed__) cannot be checkpointed");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  if (std::optional<std::string> what = shared_with_others()) {
    warn(*what + ", so the process cannot be checkpointed");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

std::string wake_file(int pid) {
  const char *set = std::getenv("CKPT_SOFTCUDA");
  Result<broker::Configuration> c = broker::parse_configuration(set == nullptr ? "" : set);
  Result<std::string> path = c ? broker::socket_path(*c) : Result<std::string>(Failure(c.error()));
  return path ? fmt::format("{}.wake.{}", *path, pid) : std::string();
}

// Executes one order each time that the wake file appears. Keeps no descriptor open. Ends when the
// process is no longer checkpointed.
// It maps no memory, because that would lie where the device's ranges were (device_ranges.h).
void watch_wake_file(const std::string &file) {
  for (;;) {
    std::this_thread::sleep_for(kWakePause);
    {
      std::lock_guard guard(mutex);
      if (state != CU_PROCESS_STATE_CHECKPOINTED) return;
    }
    if (access(file.c_str(), F_OK) != 0) continue;
    unlink(file.c_str());
    (void)client().serve_again();
  }
}

CUresult checkpoint_here() {
  std::lock_guard guard(mutex);
  REQUIRE(state == CU_PROCESS_STATE_LOCKED, CUDA_ERROR_ILLEGAL_STATE);
  CHECK_CU(check_memory());
  for (Context *c : process().contexts.all()) c->synchronize();
  Result<> r = save_physical_memory();
  if (r) r = process().memory->save_device_memory();
  if (!r) {
    warn(r.error().text());
    state = CU_PROCESS_STATE_FAILED;
    return CUDA_ERROR_UNKNOWN;
  }
  std::thread(watch_wake_file, wake_file(getpid())).detach();  // its stack, before there are holes
  unmap_device_ranges();
  devices_before = client().devices();
  client().disconnect();
  state = CU_PROCESS_STATE_CHECKPOINTED;
  refuse_calls(true);
  note_away(true);
  return CUDA_SUCCESS;
}

CUresult restore_memory() {
  Result<> r = process().memory->restore_device_memory();
  if (r) r = restore_physical_memory();
  if (r) return CUDA_SUCCESS;
  warn(r.error().text());
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// CKPT_SOFTCUDA_COLD: nothing but a process that has called cuInit keeps the device initialised.
bool is_cold() {
  const char *set = std::getenv("CKPT_SOFTCUDA_COLD");
  if (set == nullptr || std::string_view(set) != "1") return false;
  return !client().has_others();
}

CUresult restore_here(const std::vector<DevicePair> &pairs) {
  std::lock_guard guard(mutex);
  REQUIRE(state == CU_PROCESS_STATE_CHECKPOINTED, CUDA_ERROR_ILLEGAL_STATE);
  REQUIRE(!lost, CUDA_ERROR_OPERATING_SYSTEM);
  // Seen on driver 580.159: Checkpoint accepts memory of another process that is mapped here, and
  // Restore does not.
  REQUIRE(!maps_imported_memory(), CUDA_ERROR_NOT_SUPPORTED);
  // First: reconnect() starts a thread. Its stack would lie where the ranges were.
  if (!map_device_ranges_again()) return CUDA_ERROR_OUT_OF_MEMORY;
  if (Result<> r = client().reconnect(); !r) {
    warn(r.error().text());
    unmap_device_ranges();
    return CUDA_ERROR_NO_DEVICE;
  }
  std::vector<u32> places;
  CUresult e = target_devices(pairs, devices_before, client().devices(), places);
  if (e == CUDA_SUCCESS && is_cold()) e = CUDA_ERROR_OPERATING_SYSTEM;
  if (e == CUDA_SUCCESS) {
    client().remap(places);
    e = restore_memory();
  }
  if (e != CUDA_SUCCESS) {
    client().disconnect();
    unmap_device_ranges();
    lost = strict() && e == CUDA_ERROR_OUT_OF_MEMORY;
    return e;
  }
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i] != kNoDevice)
      std::memcpy(process().devices[i]->uuid.bytes, client().devices()[places[i]].uuid.data(), 16);
  state = CU_PROCESS_STATE_LOCKED;
  refuse_calls(false);
  note_away(false);
  return CUDA_SUCCESS;
}

enum class Order : u8 { State, Lock, Checkpoint, Restore, Unlock };

Bytes encode(Order order, u32 timeout, const std::vector<DevicePair> &pairs) {
  Writer w;
  w.put(order).put(timeout).put(static_cast<u32>(pairs.size()));
  for (const DevicePair &p : pairs) w.raw(p.from.bytes, 16).raw(p.to.bytes, 16);
  return w.take();
}

CUresult execute(Order order, u32 timeout, const std::vector<DevicePair> &pairs, u32 &value) {
  switch (order) {
    case Order::Lock: return lock_here(timeout);
    case Order::Checkpoint: return checkpoint_here();
    case Order::Restore: return restore_here(pairs);
    case Order::Unlock: return unlock_here();
    default: break;
  }
  std::lock_guard guard(mutex);
  value = state;
  return CUDA_SUCCESS;
}

CUresult execute_order(ByteView message, u32 &value) {
  Reader r(message);
  Order order = r.get<Order>();
  u32 timeout = r.get<u32>();
  std::vector<DevicePair> pairs;
  for (u32 n = r.get<u32>(); n > 0 && r.ok(); --n) {
    DevicePair p{};
    ByteView both = r.raw(32);
    if (!r.ok()) break;
    std::memcpy(p.from.bytes, both.data(), 16);
    std::memcpy(p.to.bytes, both.data() + 16, 16);
    pairs.push_back(p);
  }
  REQUIRE(r.done(), CUDA_ERROR_INVALID_VALUE);
  return execute(order, timeout, pairs, value);
}

// A checkpointed process does not receive orders until its wake file is there.
Result<std::optional<Bytes>> ask_or_wake(int pid, ByteView order) {
  CKPT_TRY(std::optional<Bytes> answer, client().ask(pid, order));
  std::string file = wake_file(pid);
  if (answer || file.empty()) return answer;
  { UniqueFd made(open(file.c_str(), O_CREAT | O_CLOEXEC | O_WRONLY, 0600)); }
  for (milliseconds waited{0}; !answer && waited < kWakeTimeout; waited += kWakePause) {
    std::this_thread::sleep_for(kWakePause);
    CKPT_TRY(answer, client().ask(pid, order));
  }
  unlink(file.c_str());
  return answer;
}

CUresult send_order(int pid, const Bytes &order, u32 &value) {
  REQUIRE(process().initialised == CUDA_SUCCESS, process().initialised);
  if (pid == getpid()) return execute_order(order, value);
  Result<std::optional<Bytes>> answer = ask_or_wake(pid, order);
  REQUIRE(answer && *answer, CUDA_ERROR_INVALID_VALUE);
  Reader r(**answer);
  CUresult e = static_cast<CUresult>(r.get<u32>());
  value = r.get<u32>();
  return r.done() ? e : CUDA_ERROR_UNKNOWN;
}

CUresult send_order(int pid, Order order, u32 timeout = 0,
                    const std::vector<DevicePair> &pairs = {}) {
  u32 value = 0;
  return send_order(pid, encode(order, timeout, pairs), value);
}

}  // namespace

Bytes answer_order(ByteView message) {
  u32 value = 0;
  CUresult e = execute_order(message, value);
  Writer w;
  w.put(static_cast<u32>(e)).put(value);
  return w.take();
}

}  // namespace ckpt::softcuda::driver

using namespace ckpt;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuCheckpointProcessGetState(int pid, CUprocessState *out) {
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  u32 value = 0;
  CHECK_CU(send_order(pid, encode(Order::State, 0, {}), value));
  *out = static_cast<CUprocessState>(value);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args) {
  FAIL_IF_ORDERED("cuCheckpointProcessLock");
  return send_order(pid, Order::Lock, args == nullptr ? 0 : args->timeoutMs);
}

SOFTCUDA_API CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *) {
  FAIL_IF_ORDERED("cuCheckpointProcessCheckpoint");
  return send_order(pid, Order::Checkpoint);
}

SOFTCUDA_API CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args) {
  FAIL_IF_ORDERED("cuCheckpointProcessRestore");
  std::vector<DevicePair> pairs;
  if (args != nullptr && !fault_at("cuCheckpointProcessRestore").nothing) {
    REQUIRE(args->gpuPairsCount <= 64 && (args->gpuPairsCount == 0 || args->gpuPairs != nullptr),
            CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < args->gpuPairsCount; ++i)
      pairs.push_back({args->gpuPairs[i].oldUuid, args->gpuPairs[i].newUuid});
  }
  return send_order(pid, Order::Restore, 0, pairs);
}

SOFTCUDA_API CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *) {
  FAIL_IF_ORDERED("cuCheckpointProcessUnlock");
  return send_order(pid, Order::Unlock);
}

// Any thread can restore the process; the main thread always exists.
SOFTCUDA_API CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid) {
  REQUIRE(tid != nullptr, CUDA_ERROR_INVALID_VALUE);
  CUprocessState s{};
  CHECK_CU(cuCheckpointProcessGetState(pid, &s));
  *tid = pid;
  return CUDA_SUCCESS;
}
