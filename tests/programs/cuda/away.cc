// SPDX-License-Identifier: Apache-2.0
//
// What other threads get from a driver and from NVML while this process is checkpointed, on a
// device that is as strict as NVIDIA's driver.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "driver_check.h"

static CUresult in_thread(CUresult (*call)()) {
  CUresult result = CUDA_SUCCESS;
  std::thread([&] { result = call(); }).join();
  return result;
}

int main() {
  CUcontext context;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr);
  auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  CHECK(init() == 0);

  OK(cuCheckpointProcessLock(getpid(), nullptr));
  std::atomic<bool> returned{false};
  std::thread waits([&] {
    OK(cuCtxSetCurrent(nullptr));
    returned = true;
  });
  usleep(100000);
  OK(cuCheckpointProcessCheckpoint(getpid(), nullptr));
  CHECK(in_thread([] { return cuCtxSetCurrent(nullptr); }) == CUDA_ERROR_DEVICE_UNAVAILABLE);
  CHECK(in_thread([] { return cuInit(0); }) == CUDA_ERROR_DEVICE_UNAVAILABLE);
  CHECK(in_thread([] {
          void *entry;
          return cuGetProcAddress("cuMemAlloc", &entry, 13000, 0, nullptr);
        }) == CUDA_ERROR_DEVICE_UNAVAILABLE);
  CHECK(in_thread([] {
          const char *name;
          return cuGetErrorName(CUDA_SUCCESS, &name);
        }) == CUDA_SUCCESS);
  std::atomic<bool> answered{false};
  std::thread asks([&] {
    CHECK(init() == 0);
    answered = true;
  });
  usleep(100000);
  CHECK(!answered);
  CHECK(!returned);
  OK(cuCheckpointProcessRestore(getpid(), nullptr));
  OK(cuCheckpointProcessUnlock(getpid(), nullptr));
  waits.join();
  asks.join();
  OK(cuCtxSynchronize());
  std::puts("PASSED");
  return 0;
}
