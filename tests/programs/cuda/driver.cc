// SPDX-License-Identifier: Apache-2.0
//
// A program of the driver API: modules from PTX, virtual memory management, a checkpoint of the
// process by itself.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "driver_check.h"

static const char kPtx[] = R"(
.version 7.0
.target sm_75
.address_size 64
.global .align 4 .u32 bias = 7;
.visible .entry scale(.param .u64 p, .param .u32 n)
{
  .reg .pred %q;
  .reg .b32 %r<6>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [p];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %q, %r2, %r1;
  @%q ret;
  mul.wide.u32 %d2, %r2, 4;
  add.s64 %d3, %d1, %d2;
  ld.global.u32 %r3, [%d3];
  ld.global.u32 %r4, [bias];
  mad.lo.s32 %r5, %r3, 2, %r4;
  st.global.u32 [%d3], %r5;
  ret;
}
.visible .entry unknown()
{
  .reg .b32 %r<2>;
  frobnicate.u32 %r1, 3;
  ret;
}
)";

static void launch(CUfunction f, CUdeviceptr p, unsigned n) {
  void *args[] = {&p, &n};
  OK(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, nullptr, args, nullptr));
}

static void check_values(CUdeviceptr p, unsigned first, unsigned factor, unsigned add) {
  unsigned host[64];
  OK(cuMemcpyDtoH(host, p, sizeof host));
  for (unsigned i = 0; i < 64; ++i) CHECK(host[i] == first + i * factor + add);
}

static CUdeviceptr map_memory(size_t bytes, CUmemGenericAllocationHandle *handle) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t granularity = 0;
  OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CHECK(bytes % granularity == 0);
  CUdeviceptr p = 0;
  OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
  OK(cuMemCreate(handle, bytes, &prop, 0));
  OK(cuMemMap(p, bytes, 0, *handle, 0));
  CUmemAccessDesc access{};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  OK(cuMemSetAccess(p, bytes, &access, 1));
  return p;
}

static void fill(CUdeviceptr p) {
  unsigned host[64];
  for (unsigned i = 0; i < 64; ++i) host[i] = i;
  OK(cuMemcpyHtoD(p, host, sizeof host));
}

static void checkpoint_self(CUdeviceptr a, CUdeviceptr b, CUfunction f) {
  int pid = getpid();
  CUprocessState state{};
  OK(cuCheckpointProcessGetState(pid, &state));
  CHECK(state == CU_PROCESS_STATE_RUNNING);
  CHECK(cuCheckpointProcessCheckpoint(pid, nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  CUcheckpointLockArgs lock{};
  lock.timeoutMs = 5000;
  OK(cuCheckpointProcessLock(pid, &lock));
  std::thread blocked([&] { OK(cuInit(0)); });
  blocked.join();
  OK(cuCheckpointProcessCheckpoint(pid, nullptr));
  OK(cuCheckpointProcessGetState(pid, &state));
  CHECK(state == CU_PROCESS_STATE_CHECKPOINTED);
  // The device's sockets must be closed now.
  char path[64], target[256];
  for (int fd = 3; fd < 64; ++fd) {
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, target, sizeof target - 1);
    CHECK(n < 0 || std::strncmp(target, "socket:", 7) != 0);
  }
  OK(cuCheckpointProcessRestore(pid, nullptr));
  OK(cuCheckpointProcessUnlock(pid, nullptr));
  check_values(a, 0, 1, 0);
  check_values(b, 0, 1, 0);
  launch(f, a, 64);
  check_values(a, 7, 2, 0);
}

int main(int argc, char **argv) {
  int count = 0;
  CHECK(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
  OK(cuInit(0));
  OK(cuDeviceGetCount(&count));
  CUdevice device;
  OK(cuDeviceGet(&device, 0));
  CHECK(cuDeviceGet(&device, count) == CUDA_ERROR_INVALID_DEVICE);
  OK(cuDeviceGet(&device, 0));
  CUcontext context;
  CUdeviceptr p = 0;
  CHECK(cuMemAlloc(&p, 16) == CUDA_ERROR_INVALID_CONTEXT);
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  if (argc > 1 && std::strcmp(argv[1], "--hold") == 0) {
    // For tests with several processes: allocates argv[2] MiB.
    CUresult e = cuMemAlloc(&p, std::strtoull(argv[2], nullptr, 10) << 20);
    if (e == CUDA_SUCCESS) fill(p);
    std::printf("%s\n", e == CUDA_SUCCESS               ? "held"
                        : e == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory"
                                                        : "?");
    std::fflush(stdout);
    // Waits for the end of standard input, or for a file where CRIU dumps the process, which would
    // need the other end of a pipe.
    char c;
    while (argc > 3 ? access(argv[3], F_OK) != 0 : read(0, &c, 1) > 0) usleep(argc > 3 ? 20000 : 0);
    if (e == CUDA_SUCCESS) check_values(p, 0, 1, 0);
    if (argc > 3) std::puts("as before");
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "--order") == 0) {
    // Checkpoints another process, restores it, or both; checks its memory in between.
    int pid = std::atoi(argv[2]);
    bool down = argc < 4 || std::strcmp(argv[3], "down") == 0,
         up = argc < 4 || std::strcmp(argv[3], "up") == 0;
    size_t free1, free2, free3, total;
    CUprocessState state{};
    OK(cuMemGetInfo(&free1, &total));
    auto begin = std::chrono::steady_clock::now();
    auto say = [&](const char *what) {
      std::printf("%s %.3f s\n", what,
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    };
    if (down) {
      OK(cuCheckpointProcessLock(pid, nullptr));
      OK(cuCheckpointProcessCheckpoint(pid, nullptr));
      say("down");
    }
    OK(cuCheckpointProcessGetState(pid, &state));
    CHECK(state == CU_PROCESS_STATE_CHECKPOINTED);
    OK(cuMemGetInfo(&free2, &total));
    CHECK((free2 > free1) == down);
    if (up) {
      begin = std::chrono::steady_clock::now();
      OK(cuCheckpointProcessRestore(pid, nullptr));
      say("up");
      OK(cuMemGetInfo(&free3, &total));
      CHECK((free3 < free2) && (free3 == free1 || !down));
      OK(cuCheckpointProcessUnlock(pid, nullptr));
    }
    std::puts("PASSED");
    return 0;
  }

  CUmodule module;
  OK(cuModuleLoadData(&module, kPtx));
  CUfunction scale, unknown;
  OK(cuModuleGetFunction(&scale, module, "scale"));
  OK(cuModuleGetFunction(&unknown, module, "unknown"));
  CHECK(cuModuleGetFunction(&scale, module, "nothing") == CUDA_ERROR_NOT_FOUND);
  // Only the kernel that cannot run fails.
  CHECK(cuLaunchKernel(unknown, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) ==
        CUDA_ERROR_INVALID_PTX);
  OK(cuMemAlloc(&p, 256));
  fill(p);
  launch(scale, p, 64);
  check_values(p, 7, 2, 0);
  CUdeviceptr bias;
  size_t bytes;
  OK(cuModuleGetGlobal(&bias, &bytes, module, "bias"));
  CHECK(bytes == 4);
  unsigned zero = 0;
  OK(cuMemcpyHtoD(bias, &zero, 4));
  launch(scale, p, 64);
  check_values(p, 14, 4, 0);
  unsigned seven = 7;
  OK(cuMemcpyHtoD(bias, &seven, 4));

  CUmemGenericAllocationHandle handle;
  CUdeviceptr q = map_memory(4 << 20, &handle);
  fill(p);
  fill(q);
  checkpoint_self(p, q, scale);
  OK(cuMemUnmap(q, 4 << 20));
  OK(cuMemRelease(handle));
  OK(cuMemAddressFree(q, 4 << 20));

  void *address = nullptr;
  CUdriverProcAddressQueryResult found;
  OK(cuGetProcAddress("cuMemAlloc", &address, 3020, 0, &found));
  CHECK(address == reinterpret_cast<void *>(&cuMemAlloc));
  CHECK(cuGetProcAddress("cuLaunchKernelEx", &address, 3020, 0, &found) == CUDA_ERROR_NOT_FOUND);
  CHECK(found == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  OK(cuGetProcAddress("cuLaunchKernel", &address, 7000,
                      CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &found));
  void *plain = nullptr;
  OK(cuGetProcAddress("cuLaunchKernel", &plain, 7000, 0, &found));
  CHECK(address != plain);
  std::puts("PASSED");
  return 0;
}
