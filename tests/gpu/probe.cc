// SPDX-License-Identifier: Apache-2.0
//
// One page of questions to a real driver that facts/cuda.md marks as not verified: does memory of
// cuMemCreate, at a reserved address, live with the driver's own checkpoint calls? A row each. It
// opens the driver by itself, with no library of ours.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void *library() {
  static void *const kLibrary = dlopen("libcuda.so.1", RTLD_NOW);
  return kLibrary;
}

template <class F>
F entry(const char *name) {
  return reinterpret_cast<F>(dlsym(library(), name));
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool row(const char *question, CUresult e, const char *more = "") {
  const char *name = "?";
  auto error_name = entry<PFN_cuGetErrorName_v6000>("cuGetErrorName");
  if (error_name) error_name(e, &name);
  std::printf("%-44s %-8s %s %s\n", question, e == CUDA_SUCCESS ? "ok" : "FAILED", name, more);
  return e == CUDA_SUCCESS;
}

constexpr size_t kBytes = 512u << 20;

CUmemAllocationProp on_device() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return prop;
}

// Physical memory beneath [at, +kBytes).
CUresult back(CUdeviceptr at, CUmemGenericAllocationHandle *handle) {
  CUmemAllocationProp prop = on_device();
  CUresult e = entry<PFN_cuMemCreate_v10020>("cuMemCreate")(handle, kBytes, &prop, 0);
  if (e == CUDA_SUCCESS) e = entry<PFN_cuMemMap_v10020>("cuMemMap")(at, kBytes, 0, *handle, 0);
  CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (e == CUDA_SUCCESS)
    e = entry<PFN_cuMemSetAccess_v10020>("cuMemSetAccess")(at, kBytes, &access, 1);
  return e;
}

CUresult drop(CUdeviceptr at, CUmemGenericAllocationHandle handle) {
  CUresult e = entry<PFN_cuMemUnmap_v10020>("cuMemUnmap")(at, kBytes);
  return e != CUDA_SUCCESS ? e : entry<PFN_cuMemRelease_v10020>("cuMemRelease")(handle);
}

// Lock, checkpoint, restore, unlock on ourselves.
CUresult around(const char *what) {
  CUcheckpointLockArgs lock{};
  lock.timeoutMs = 10000;
  double begin = seconds();
  CUresult e =
      entry<PFN_cuCheckpointProcessLock_v12080>("cuCheckpointProcessLock")(getpid(), &lock);
  if (e != CUDA_SUCCESS) return e;
  e = entry<PFN_cuCheckpointProcessCheckpoint_v12080>("cuCheckpointProcessCheckpoint")(getpid(),
                                                                                       nullptr);
  double away = seconds();
  if (e == CUDA_SUCCESS)
    e = entry<PFN_cuCheckpointProcessRestore_v12080>("cuCheckpointProcessRestore")(getpid(),
                                                                                   nullptr);
  entry<PFN_cuCheckpointProcessUnlock_v12080>("cuCheckpointProcessUnlock")(getpid(), nullptr);
  std::printf("    %s: %.3f s out, %.3f s in\n", what, away - begin, seconds() - away);
  return e;
}

CUresult holds(CUdeviceptr p, unsigned value) {
  std::vector<unsigned> host(kBytes / 4);
  CUresult e = entry<PFN_cuMemcpyDtoH_v3020>("cuMemcpyDtoH_v2")(host.data(), p, kBytes);
  for (unsigned v : host)
    if (e == CUDA_SUCCESS && v != value) return CUDA_ERROR_UNKNOWN;
  return e;
}

}  // namespace

int main() {
  if (!library()) return std::puts("there is no CUDA driver"), 1;
  auto set = entry<PFN_cuMemsetD32_v3020>("cuMemsetD32_v2");
  if (!row("cuInit", entry<PFN_cuInit_v2000>("cuInit")(0))) return 1;
  if (!dlsym(library(), "cuCheckpointProcessLock"))
    return row("the driver has checkpoint calls", CUDA_ERROR_NOT_FOUND), 1;
  CUcontext context;
  CUdevice device = 0;
  entry<PFN_cuDevicePrimaryCtxRetain_v7000>("cuDevicePrimaryCtxRetain")(&context, device);
  row("a context", entry<PFN_cuCtxSetCurrent_v4000>("cuCtxSetCurrent")(context));

  // As our library does it: the memory goes before, the reservation stays.
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle handle = 0;
  row("reserve 16 GiB of addresses",
      entry<PFN_cuMemAddressReserve_v10020>("cuMemAddressReserve")(&at, 16ull << 30, 0, 0, 0));
  row("physical memory there", back(at, &handle));
  set(at, 0x5eed, kBytes / 4);
  row("given back", drop(at, handle));
  row("checkpoint beside an empty reservation", around("nothing on the device"));
  row("physical memory there again", back(at, &handle));
  set(at, 0x5eed, kBytes / 4);
  // And what the driver does with such memory by itself.
  row("checkpoint with mapped memory", around("512 MiB of cuMemCreate"));
  row("it is as it was", holds(at, 0x5eed));

  CUdeviceptr plain = 0;
  row("cuMemAlloc", entry<PFN_cuMemAlloc_v3020>("cuMemAlloc_v2")(&plain, kBytes));
  set(plain, 0xabc, kBytes / 4);
  row("checkpoint with cuMemAlloc", around("and 512 MiB of cuMemAlloc"));
  row("it is as it was", holds(plain, 0xabc));
  return 0;
}
