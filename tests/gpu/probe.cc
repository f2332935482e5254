// SPDX-License-Identifier: Apache-2.0
//
// probe QUESTION: exit code 0 if the driver does what ckpt relies on, 1 if not, 77 if this machine
// cannot answer. rows.py lists the questions.
#include "probe.h"

#include <unistd.h>

#include <cstring>

namespace probe {

void *library() {
  static void *const kLibrary = dlopen("libcuda.so.1", RTLD_NOW);
  if (kLibrary == nullptr) skip("there is no CUDA driver");
  return kLibrary;
}

// Not by cuGetErrorName: a driver that is locked may block every call.
std::string error_name(CUresult e) {
  switch (e) {
    case CUDA_SUCCESS: return "success";
    case CUDA_ERROR_INVALID_VALUE: return "INVALID_VALUE";
    case CUDA_ERROR_OUT_OF_MEMORY: return "OUT_OF_MEMORY";
    case CUDA_ERROR_NO_DEVICE: return "NO_DEVICE";
    case CUDA_ERROR_OPERATING_SYSTEM: return "OPERATING_SYSTEM";
    case CUDA_ERROR_ILLEGAL_STATE: return "ILLEGAL_STATE";
    case CUDA_ERROR_NOT_READY: return "NOT_READY";
    case CUDA_ERROR_NOT_SUPPORTED: return "NOT_SUPPORTED";
    default: return "CUDA error " + std::to_string(static_cast<int>(e));
  }
}

void check(CUresult e, const char *what) {
  if (e == CUDA_SUCCESS) return;
  std::printf("%s: %s\n", what, error_name(e).c_str());
  std::fflush(stdout);
  _exit(1);  // a driver that is locked may block the end of the process
}

void skip(const char *why) {
  std::printf("%s\n", why);
  std::exit(kSkipped);
}

void fail(const char *why) {
  std::printf("%s\n", why);
  std::exit(1);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void start() {
  CUcontext context;
  CHECKED(cuInit, 2000, 0);
  CHECKED(cuDevicePrimaryCtxRetain, 7000, &context, 0);
  CHECKED(cuCtxSetCurrent, 4000, context);
}

CUmemAllocationProp on_device(int device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  return prop;
}

CUdeviceptr reserve(size_t bytes, CUdeviceptr at) {
  CUdeviceptr p = 0;
  CHECKED(cuMemAddressReserve, 10020, &p, bytes, 0, at, 0);
  return p;
}

void map(Mapped &m, int device) {
  CUmemAllocationProp prop = on_device(device);
  CHECKED(cuMemCreate, 10020, &m.handle, kBytes, &prop, 0);
  CHECKED(cuMemMap, 10020, m.at, kBytes, 0, m.handle, 0);
  CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECKED(cuMemSetAccess, 10020, m.at, kBytes, &access, 1);
}

void unmap(Mapped &m) {
  CHECKED(cuMemUnmap, 10020, m.at, kBytes);
  CHECKED(cuMemRelease, 10020, m.handle);
}

void fill(CUdeviceptr p, unsigned value) {
  CHECKED_AS(cuMemsetD32_v2, cuMemsetD32, 3020, p, value, kBytes / 4);
}

bool holds(CUdeviceptr p, unsigned value) {
  std::vector<unsigned> host(kBytes / 4);
  CHECKED_AS(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, host.data(), p, kBytes);
  for (unsigned v : host)
    if (v != value) return false;
  return true;
}

void leave() {
  CUcheckpointLockArgs lock{};
  lock.timeoutMs = 10000;
  CHECKED(cuCheckpointProcessLock, 12080, getpid(), &lock);
  CHECKED(cuCheckpointProcessCheckpoint, 12080, getpid(), nullptr);
}

CUresult restore(const std::vector<CUcheckpointGpuPair> &pairs) {
  CUcheckpointRestoreArgs args{};
  args.gpuPairs = const_cast<CUcheckpointGpuPair *>(pairs.data());
  args.gpuPairsCount = static_cast<unsigned>(pairs.size());
  return CALL(cuCheckpointProcessRestore, 12080, getpid(), pairs.empty() ? nullptr : &args);
}

void unlock() { CHECKED(cuCheckpointProcessUnlock, 12080, getpid(), nullptr); }

Times leave_and_return(const std::vector<CUcheckpointGpuPair> &pairs) {
  Times t;
  double begin = seconds();
  leave();
  double away = seconds();
  check(restore(pairs), "cuCheckpointProcessRestore");
  unlock();
  return {away - begin, seconds() - away};
}

namespace {

void ask_about_start() {
  int version = 0, count = 0;
  CHECKED(cuDriverGetVersion, 2020, &version);
  CHECKED(cuDeviceGetCount, 2000, &count);
  for (int i = 0; i < count; i++) {
    char name[256] = {};
    CHECKED(cuDeviceGetName, 2000, name, sizeof name - 1, i);
    std::printf("device %d: %s\n", i, name);
  }
  if (dlsym(library(), "cuCheckpointProcessLock") == nullptr)
    fail("the driver has no checkpoint calls: it is older than 570");
  std::printf("CUDA %d.%d, %d visible devices\n", version / 1000, version % 1000 / 10, count);
}

void ask_about_empty_reservation() {
  Mapped m{reserve(16ull << 30)};
  map(m);
  fill(m.at, 0x5eed);
  unmap(m);
  leave_and_return();
  map(m);
  fill(m.at, 0xabc);
  if (!holds(m.at, 0xabc)) fail("memory that was mapped afterwards has other contents");
  std::puts("the reservation stays, and takes memory again");
}

void ask_about_mapped_memory() {
  Mapped m{reserve(kBytes)};
  map(m);
  fill(m.at, 0x5eed);
  leave_and_return();
  if (!holds(m.at, 0x5eed)) fail("its contents have changed");
  std::puts("contents are unchanged");
}

void ask_about_allocated_memory() {
  CUdeviceptr p = 0;
  CHECKED_AS(cuMemAlloc_v2, cuMemAlloc, 3020, &p, kBytes);
  fill(p, 0x5eed);
  leave_and_return();
  if (!holds(p, 0x5eed)) fail("its contents have changed");
  std::puts("contents are unchanged");
}

void ask_about_fixed_address() {
  CUdeviceptr first = reserve(16ull << 30);
  CHECKED(cuMemAddressFree, 10020, first, 16ull << 30);
  CUdeviceptr again = reserve(16ull << 30, first);
  if (again != first) fail("another address was given");
  std::puts("the same address was given");
}

// What ckpt relies on: after a checkpoint there is other physical memory at an address.
void ask_about_new_memory() {
  Mapped m{reserve(kBytes)};
  map(m);
  fill(m.at, 1);
  CUdeviceptr to = 0;
  CHECKED_AS(cuMemAlloc_v2, cuMemAlloc, 3020, &to, kBytes);
  unmap(m);
  map(m);
  fill(m.at, 2);
  CHECKED_AS(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, to, m.at, kBytes);
  if (!holds(to, 2)) fail("a copy has read the old memory");
  std::puts("a copy reads the new memory");
}

void ask_about_times() {
  Times nothing = leave_and_return();
  constexpr size_t kPieces = 8;
  for (size_t i = 0; i < kPieces; i++) {
    CUdeviceptr p = 0;
    CHECKED_AS(cuMemAlloc_v2, cuMemAlloc, 3020, &p, kBytes);
    fill(p, 1);
  }
  Times with = leave_and_return();
  std::printf("out %.3f s, in %.3f s; with %zu MiB %.3f s and %.3f s\n", nothing.out, nothing.back,
              kPieces * kBytes >> 20, with.out, with.back);
}

}  // namespace
}  // namespace probe

int main(int argc, char **argv) {
  using namespace probe;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::string question = argc > 1 ? argv[1] : "start";
  if (question == "calls-away") return ask_about_calls_away(), 0;
  start();
  if (question == "away-from") return call_all_away(std::strtoul(argv[2], nullptr, 10)), 0;
  if (question == "start") return ask_about_start(), 0;
  if (question == "empty-reservation") return ask_about_empty_reservation(), 0;
  if (question == "mapped-memory") return ask_about_mapped_memory(), 0;
  if (question == "allocated-memory") return ask_about_allocated_memory(), 0;
  if (question == "fixed-address") return ask_about_fixed_address(), 0;
  if (question == "new-memory") return ask_about_new_memory(), 0;
  if (question == "times") return ask_about_times(), 0;
  if (question.starts_with("map-")) return ask_about_maps(question), 0;
  if (question == "opencl")
    return ask_about_opencl(argc > 2 ? argv[2] : "libnvidia-opencl.so.1"), 0;
  if (ask_about_objects(question)) return 0;
  ask_about_process(question);
  return 0;
}
