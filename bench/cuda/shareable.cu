// SPDX-License-Identifier: Apache-2.0
//
// What it costs that a block of device memory can have a handle for other processes, as all of
// ckpt's blocks can: memory of cuMemCreate that is made, mapped, filled, unmapped and released, with
// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and without. Prints microseconds, the least of several
// rounds; the two ways take turns.
//
//   nvcc -cudart shared -o shareable bench/cuda/shareable.cu -lcuda && softcuda-run ./shareable
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <cuda.h>

#define CHECK(call)                                                        \
  do {                                                                     \
    if (CUresult e = (call); e != CUDA_SUCCESS) {                          \
      std::fprintf(stderr, "shareable: %s fails with %d\n", #call, int{e}); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (0)

struct Times {
  double make = 1e18, fill = 1e18, free = 1e18;
};

static double microseconds_since(std::chrono::steady_clock::time_point &begin) {
  auto now = std::chrono::steady_clock::now();
  double t = std::chrono::duration<double, std::micro>(now - begin).count();
  begin = now;
  return t;
}

static void round_trip(size_t bytes, bool shareable, Times &least) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  if (shareable) prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle memory;
  CUdeviceptr p;
  CHECK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
  auto begin = std::chrono::steady_clock::now();
  auto note = [&](double &best) {
    double t = microseconds_since(begin);
    best = t < best ? t : best;
  };
  CHECK(cuMemCreate(&memory, bytes, &prop, 0));
  CHECK(cuMemMap(p, bytes, 0, memory, 0));
  CHECK(cuMemSetAccess(p, bytes, &access, 1));
  note(least.make);
  CHECK(cuMemsetD8(p, 1, bytes));
  CHECK(cuCtxSynchronize());
  note(least.fill);
  CHECK(cuMemUnmap(p, bytes));
  CHECK(cuMemRelease(memory));
  note(least.free);
  CHECK(cuMemAddressFree(p, bytes));
}

int main() {
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  for (size_t mib : {2, 32, 128}) {
    Times plain, shareable;
    for (int i = 0; i < 40; i++) {
      round_trip(mib << 20, false, plain);
      round_trip(mib << 20, true, shareable);
    }
    std::printf("%4zu MiB: made in %.1f µs, with a handle %.1f; filled in %.1f and %.1f; freed in %.1f and %.1f\n", mib,
                plain.make, shareable.make, plain.fill, shareable.fill, plain.free, shareable.free);
  }
  return 0;
}
