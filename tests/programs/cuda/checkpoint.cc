// SPDX-License-Identifier: Apache-2.0
//
// cuCheckpointProcess* on the process itself, with two devices: calls that wait while it is locked,
// the timeout of a lock, the calls that each state refuses, and devices that gpuPairs exchanges.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "driver_check.h"

static const int kPid = getpid();

static CUprocessState state() {
  CUprocessState s{};
  OK(cuCheckpointProcessGetState(kPid, &s));
  return s;
}

struct OnDevice {
  CUdevice device;
  CUcontext context;
  CUdeviceptr memory;
  CUuuid uuid;

  OnDevice(int index, size_t mib) {
    OK(cuDeviceGet(&device, index));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&memory, mib << 20));
    OK(cuMemsetD32(memory, 1000u + static_cast<unsigned>(index), 1024));
    OK(cuDeviceGetUuid_v2(&uuid, device));
  }
  size_t used() const {
    size_t left = 0, total = 0;
    OK(cuCtxSetCurrent(context));
    OK(cuMemGetInfo(&left, &total));
    return (total - left) >> 20;
  }
  bool is(const CUuuid &wanted) const {
    CUuuid now{};
    OK(cuDeviceGetUuid_v2(&now, device));
    return std::memcmp(&now, &wanted, sizeof now) == 0;
  }
  void check(unsigned value) const {
    unsigned host[1024];
    OK(cuCtxSetCurrent(context));
    OK(cuMemcpyDtoH(host, memory, sizeof host));
    for (unsigned v : host) CHECK(v == value);
  }
};

static CUresult restore(CUcheckpointGpuPair *pairs, unsigned n) {
  CUcheckpointRestoreArgs args{};
  args.gpuPairs = pairs;
  args.gpuPairsCount = n;
  return cuCheckpointProcessRestore(kPid, &args);
}

// Each state refuses all calls but the next one, and a refused call changes nothing.
static void wrong_order() {
  CHECK(state() == CU_PROCESS_STATE_RUNNING);
  CHECK(cuCheckpointProcessCheckpoint(kPid, nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuCheckpointProcessRestore(kPid, nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuCheckpointProcessUnlock(kPid, nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  OK(cuCheckpointProcessLock(kPid, nullptr));
  CHECK(cuCheckpointProcessLock(kPid, nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuCheckpointProcessRestore(kPid, nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(state() == CU_PROCESS_STATE_LOCKED);
  OK(cuCheckpointProcessCheckpoint(kPid, nullptr));
  CHECK(cuCheckpointProcessLock(kPid, nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuCheckpointProcessCheckpoint(kPid, nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuCheckpointProcessUnlock(kPid, nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(state() == CU_PROCESS_STATE_CHECKPOINTED);
  OK(cuCheckpointProcessRestore(kPid, nullptr));
  CHECK(state() == CU_PROCESS_STATE_LOCKED);
  OK(cuCheckpointProcessUnlock(kPid, nullptr));
  CHECK(state() == CU_PROCESS_STATE_RUNNING);
  CUprocessState s{};
  CHECK(cuCheckpointProcessGetState(0x7ffffff0, &s) != CUDA_SUCCESS);
}

// A running call delays the lock until its timeout; calls after the lock wait.
static void locks(const OnDevice &d) {
  static std::atomic<bool> hold{true};
  OK(cuCtxSetCurrent(d.context));
  OK(cuLaunchHostFunc(
      nullptr,
      [](void *) {
        while (hold) usleep(1000);
      },
      nullptr));
  std::atomic<bool> inside{false};
  std::thread waits([&] {
    OK(cuCtxSetCurrent(d.context));
    inside = true;
    OK(cuCtxSynchronize());
  });
  while (!inside) usleep(1000);
  usleep(50000);
  CUcheckpointLockArgs args{};
  args.timeoutMs = 50;
  CHECK(cuCheckpointProcessLock(kPid, &args) == CUDA_ERROR_NOT_READY);
  CHECK(state() == CU_PROCESS_STATE_RUNNING);
  hold = false;
  waits.join();
  args.timeoutMs = 10000;
  OK(cuCheckpointProcessLock(kPid, &args));
  std::atomic<bool> allocated{false};
  std::thread kept_out([&] {
    CUdeviceptr p = 0;
    OK(cuCtxSetCurrent(d.context));
    OK(cuMemAlloc(&p, 1 << 20));
    allocated = true;
    OK(cuMemFree(p));
  });
  usleep(100000);
  CHECK(!allocated);
  OK(cuCheckpointProcessUnlock(kPid, nullptr));
  kept_out.join();
}

static void exchanged(const OnDevice &a, const OnDevice &b) {
  size_t on_a = a.used(), on_b = b.used();
  CHECK(on_a > on_b);
  OK(cuCheckpointProcessLock(kPid, nullptr));
  OK(cuCheckpointProcessCheckpoint(kPid, nullptr));
  CUuuid unknown{};
  CUcheckpointGpuPair pairs[2] = {{a.uuid, b.uuid}, {b.uuid, a.uuid}};
  CHECK(restore(pairs, 1) == CUDA_ERROR_INVALID_VALUE);
  pairs[1].newUuid = b.uuid;
  CHECK(restore(pairs, 2) == CUDA_ERROR_INVALID_VALUE);
  pairs[1].newUuid = unknown;
  CHECK(restore(pairs, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(state() == CU_PROCESS_STATE_CHECKPOINTED);
  pairs[1].newUuid = a.uuid;
  OK(restore(pairs, 2));
  OK(cuCheckpointProcessUnlock(kPid, nullptr));
  // The program finds the memory at the same address; other processes see it on the other device.
  CHECK(a.is(b.uuid) && b.is(a.uuid));
  CHECK(a.used() == on_a && b.used() == on_b);
  a.check(1000);
  b.check(1001);
}

// A real driver does not checkpoint managed memory.
static void managed(const OnDevice &d) {
  OK(cuCtxSetCurrent(d.context));
  CUdeviceptr p = 0;
  OK(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
  OK(cuCheckpointProcessLock(kPid, nullptr));
  CHECK(cuCheckpointProcessCheckpoint(kPid, nullptr) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(state() == CU_PROCESS_STATE_LOCKED);
  OK(cuCheckpointProcessUnlock(kPid, nullptr));
  OK(cuMemFree(p));
}

int main() {
  OK(cuInit(0));
  OnDevice a(0, 100), b(1, 10);
  wrong_order();
  locks(a);
  exchanged(a, b);
  managed(a);
  wrong_order();
  a.check(1000);
  std::puts("PASSED");
}
