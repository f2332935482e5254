// SPDX-License-Identifier: Apache-2.0
//
// Asks a real driver what docs/CUDA.md lists as not known on hardware: does memory of cuMemCreate()
// at a reserved address survive the driver's own checkpoint calls? Prints one row for each
// question. It opens the driver directly, without any library of ours.
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

bool row(const char *question, CUresult e) {
  const char *name = "?";
  auto error_name = entry<PFN_cuGetErrorName_v6000>("cuGetErrorName");
  if (error_name) error_name(e, &name);
  std::printf("%-44s %-8s %s\n", question, e == CUDA_SUCCESS ? "ok" : "FAILED", name);
  return e == CUDA_SUCCESS;
}

constexpr size_t kBytes = 512u << 20;

CUmemAllocationProp on_device() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return prop;
}

// Maps physical memory at [at, at + kBytes).
CUresult map_memory(CUdeviceptr at, CUmemGenericAllocationHandle *handle) {
  CUmemAllocationProp prop = on_device();
  CUresult e = entry<PFN_cuMemCreate_v10020>("cuMemCreate")(handle, kBytes, &prop, 0);
  if (e == CUDA_SUCCESS) e = entry<PFN_cuMemMap_v10020>("cuMemMap")(at, kBytes, 0, *handle, 0);
  CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (e == CUDA_SUCCESS)
    e = entry<PFN_cuMemSetAccess_v10020>("cuMemSetAccess")(at, kBytes, &access, 1);
  return e;
}

CUresult unmap_memory(CUdeviceptr at, CUmemGenericAllocationHandle handle) {
  CUresult e = entry<PFN_cuMemUnmap_v10020>("cuMemUnmap")(at, kBytes);
  return e != CUDA_SUCCESS ? e : entry<PFN_cuMemRelease_v10020>("cuMemRelease")(handle);
}

// Locks, checkpoints, restores and unlocks this process with the driver's calls, and prints the
// times.
CUresult checkpoint_ourselves(const char *what) {
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

// Whether all of [p, p + kBytes) has this value.
CUresult holds(CUdeviceptr p, unsigned value) {
  std::vector<unsigned> host(kBytes / 4);
  CUresult e = entry<PFN_cuMemcpyDtoH_v3020>("cuMemcpyDtoH_v2")(host.data(), p, kBytes);
  for (unsigned v : host)
    if (e == CUDA_SUCCESS && v != value) return CUDA_ERROR_UNKNOWN;
  return e;
}

// Is there a driver with checkpoint calls, and a context?
bool start() {
  if (!library()) {
    std::puts("there is no CUDA driver");
    return false;
  }
  if (!row("cuInit", entry<PFN_cuInit_v2000>("cuInit")(0))) return false;
  if (!dlsym(library(), "cuCheckpointProcessLock"))
    return row("the driver has checkpoint calls", CUDA_ERROR_NOT_FOUND);
  CUcontext context;
  CUdevice device = 0;
  entry<PFN_cuDevicePrimaryCtxRetain_v7000>("cuDevicePrimaryCtxRetain")(&context, device);
  row("create a context", entry<PFN_cuCtxSetCurrent_v4000>("cuCtxSetCurrent")(context));
  return true;
}

void fill(CUdeviceptr p, unsigned value) {
  entry<PFN_cuMemsetD32_v3020>("cuMemsetD32_v2")(p, value, kBytes / 4);
}

void probe_mapped_memory() {
  // Like our library: unmap the memory first, keep the reservation.
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle handle = 0;
  row("reserve 16 GiB of addresses",
      entry<PFN_cuMemAddressReserve_v10020>("cuMemAddressReserve")(&at, 16ull << 30, 0, 0, 0));
  row("map physical memory there", map_memory(at, &handle));
  fill(at, 0x5eed);
  row("unmap it", unmap_memory(at, handle));
  row("checkpoint beside an empty reservation", checkpoint_ourselves("nothing on the device"));
  row("map physical memory there again", map_memory(at, &handle));
  fill(at, 0x5eed);
  // Does the driver save such memory itself?
  row("checkpoint with mapped memory", checkpoint_ourselves("512 MiB of cuMemCreate"));
  row("contents are unchanged", holds(at, 0x5eed));
}

void probe_allocated_memory() {
  CUdeviceptr p = 0;
  row("cuMemAlloc", entry<PFN_cuMemAlloc_v3020>("cuMemAlloc_v2")(&p, kBytes));
  fill(p, 0xabc);
  row("checkpoint with cuMemAlloc", checkpoint_ourselves("with 512 MiB of cuMemAlloc in addition"));
  row("contents are unchanged", holds(p, 0xabc));
}

}  // namespace

int main() {
  if (!start()) return 1;
  probe_mapped_memory();
  probe_allocated_memory();
}
