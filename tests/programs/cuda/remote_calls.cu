// SPDX-License-Identifier: Apache-2.0
//
// What a program does with the runtime API that needs no memory shared with the host: copies of every
// shape, symbols, streams and events, host functions, stream-ordered memory, printf, threads.
//
//   remote_calls          checks itself
//   remote_calls wait     computes until a call fails, and exits with that error
//   remote_calls much     copies 128 MiB to the device and back, once the file "go" exists
//   remote_calls memory   prints how allocations of some sizes end
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "check.h"

struct Large {
  int values[40];
};

__constant__ int factors[4];
__device__ int total;

__global__ void scale(int *p, int n, double by, Large add) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = static_cast<int>(p[i] * by) + add.values[i % 40] + factors[i % 4];
}
__global__ void sum(const int *p, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&total, p[i]);
}
__global__ void say(int x) { printf("device says %d\n", x); }
__global__ void add(int *p, int v) { atomicAdd(p, v); }

static void check_parameters_and_symbols() {
  constexpr int n = 1000;
  int *p, host_factors[4] = {1, 2, 3, 4}, zero = 0, found = 0, expected = 0;
  std::vector<int> host(n);
  for (int i = 0; i < n; i++) host[i] = i;
  CUDA(cudaMalloc(&p, n * sizeof(int)));
  CUDA(cudaMemcpy(p, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  CUDA(cudaMemcpyToSymbol(factors, host_factors, sizeof host_factors));
  CUDA(cudaMemcpyToSymbol(total, &zero, sizeof zero));
  Large large;
  for (int i = 0; i < 40; i++) large.values[i] = i * i;
  for (int k = 0; k < 3; k++) scale<<<(n + 127) / 128, 128>>>(p, n, 2.0, large);
  sum<<<1, 64>>>(p, n);
  CUDA(cudaMemcpyFromSymbol(&found, total, sizeof found));
  for (int i = 0; i < n; i++) {
    int x = i;
    for (int k = 0; k < 3; k++) x = x * 2 + (i % 40) * (i % 40) + host_factors[i % 4];
    expected += x;
  }
  CHECK(found == expected);
  CUDA(cudaFree(p));
}

static void check_boxes() {
  constexpr size_t w = 300, h = 40, d = 5;
  std::vector<unsigned char> from(w * h * d), to(w * h * d);
  for (size_t i = 0; i < from.size(); i++) from[i] = static_cast<unsigned char>(i * 7);
  cudaPitchedPtr a, b;
  cudaExtent e = make_cudaExtent(w, h, d);
  CUDA(cudaMalloc3D(&a, e));
  CUDA(cudaMalloc3D(&b, e));
  CHECK(a.pitch >= w);
  cudaMemcpy3DParms c{};
  c.extent = e;
  c.kind = cudaMemcpyDefault;
  c.srcPtr = make_cudaPitchedPtr(from.data(), w, w, h);
  c.dstPtr = a;
  CUDA(cudaMemcpy3D(&c));
  c.srcPtr = a;
  c.dstPtr = b;
  CUDA(cudaMemcpy3D(&c));
  c.srcPtr = b;
  c.dstPtr = make_cudaPitchedPtr(to.data(), w, w, h);
  CUDA(cudaMemcpy3D(&c));
  CHECK(from == to);
  CUDA(cudaMemset2D(b.ptr, b.pitch, 9, 100, 3));
  CUDA(cudaMemcpy2D(to.data(), w, b.ptr, b.pitch, w, h, cudaMemcpyDeviceToHost));
  for (size_t y = 0; y < h; y++)
    for (size_t x = 0; x < w; x++) CHECK(to[y * w + x] == (y < 3 && x < 100 ? 9 : from[y * w + x]));
  CUDA(cudaFree(a.ptr));
  CUDA(cudaFree(b.ptr));
}

static void check_large_copies() {
  constexpr size_t n = (5u << 20) + 77;
  std::vector<unsigned> from(n), to(n);
  for (size_t i = 0; i < n; i++) from[i] = static_cast<unsigned>(i * 2654435761u);
  unsigned *p, *q;
  CUDA(cudaMalloc(&p, n * 4));
  CUDA(cudaMalloc(&q, n * 4));
  cudaStream_t s;
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CUDA(cudaMemcpyAsync(p, from.data(), n * 4, cudaMemcpyHostToDevice, s));
  CUDA(cudaMemcpyAsync(q, p, n * 4, cudaMemcpyDeviceToDevice, s));
  CUDA(cudaMemcpyAsync(to.data(), q, n * 4, cudaMemcpyDeviceToHost, s));
  CUDA(cudaStreamSynchronize(s));
  CHECK(from == to);
  CUDA(cudaStreamDestroy(s));
  CUDA(cudaFree(p));
  CUDA(cudaFree(q));
}

static void check_streams_and_events() {
  cudaStream_t a, b;
  cudaEvent_t done, start;
  int *p, found = 0, zero = 0;
  CUDA(cudaStreamCreate(&a));
  CUDA(cudaStreamCreateWithPriority(&b, cudaStreamNonBlocking, 0));
  CUDA(cudaEventCreate(&start));
  CUDA(cudaEventCreate(&done));
  CUDA(cudaMalloc(&p, sizeof *p));
  CUDA(cudaMemcpy(p, &zero, sizeof zero, cudaMemcpyDefault));
  CUDA(cudaEventRecord(start, a));
  for (int i = 0; i < 100; i++) add<<<1, 32, 0, a>>>(p, 1);
  CUDA(cudaEventRecord(done, a));
  CUDA(cudaStreamWaitEvent(b, done));
  CUDA(cudaMemcpyAsync(&found, p, sizeof found, cudaMemcpyDefault, b));
  CUDA(cudaStreamSynchronize(b));
  CHECK(found == 3200);
  CUDA(cudaEventSynchronize(done));
  CHECK(cudaEventQuery(done) == cudaSuccess);
  float ms = -1;
  CUDA(cudaEventElapsedTime(&ms, start, done));
  CHECK(ms >= 0);
  CUDA(cudaEventDestroy(done));
  CHECK(cudaEventQuery(done) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CUDA(cudaStreamDestroy(a));
  CUDA(cudaStreamDestroy(b));
  CUDA(cudaFree(p));
}

// A copy from page-locked memory takes the bytes that a host function before it in its stream has
// written.
static void check_host_functions() {
  static std::atomic<int> called{0};
  int *p, *value, found = 0;
  CUDA(cudaMallocHost(&value, sizeof *value));
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  CUDA(cudaMalloc(&p, sizeof *p));
  CUDA(cudaLaunchHostFunc(s, [](void *v) { *static_cast<int *>(v) = 42; }, value));
  CUDA(cudaMemcpyAsync(p, value, sizeof *value, cudaMemcpyHostToDevice, s));
  CUDA(cudaStreamAddCallback(
      s, [](cudaStream_t, cudaError_t e, void *) { called += e == cudaSuccess; }, nullptr, 0));
  CUDA(cudaStreamSynchronize(s));
  CHECK(called == 1);
  CUDA(cudaMemcpy(&found, p, sizeof found, cudaMemcpyDefault));
  CHECK(found == 42);
  CUDA(cudaFreeHost(value));
  CUDA(cudaStreamDestroy(s));
  CUDA(cudaFree(p));
}

static void check_memory() {
  int *p, *q;
  cudaPointerAttributes a;
  CUDA(cudaMallocAsync(&p, 4096, nullptr));
  CUDA(cudaMemsetAsync(p, 0, 4096, nullptr));
  add<<<1, 32>>>(p, 2);
  int found = 0;
  CUDA(cudaMemcpyAsync(&found, p, sizeof found, cudaMemcpyDefault, nullptr));
  CUDA(cudaFreeAsync(p, nullptr));
  CUDA(cudaDeviceSynchronize());
  CHECK(found == 64);
  CUDA(cudaMallocHost(&q, 1000));
  CUDA(cudaPointerGetAttributes(&a, q));
  CHECK(a.type == cudaMemoryTypeHost);
  CUDA(cudaMalloc(&p, 1000));
  CUDA(cudaPointerGetAttributes(&a, p + 5));
  CHECK(a.type == cudaMemoryTypeDevice && a.device == 0);
  q[3] = 17;
  CUDA(cudaMemcpy(p, q, 1000, cudaMemcpyDefault));
  q[3] = 0;
  CUDA(cudaMemcpy(q, p, 1000, cudaMemcpyDefault));
  CHECK(q[3] == 17);
  CHECK(cudaFree(p + 1) == cudaErrorInvalidValue);
  CUDA(cudaFree(p));
  CUDA(cudaFreeHost(q));
  cudaGetLastError();
}

static unsigned long long pool_use(cudaMemPool_t pool, cudaMemPoolAttr what) {
  unsigned long long bytes = ~0ull;
  CUDA(cudaMemPoolGetAttribute(pool, what, &bytes));
  return bytes;
}

static void check_pools() {
  constexpr size_t kMiB = 1 << 20;
  cudaMemPool_t pool, current;
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, 0};
  CUDA(cudaMemPoolCreate(&pool, &props));
  CUDA(cudaDeviceGetMemPool(&current, 0));
  unsigned long long before = pool_use(current, cudaMemPoolAttrUsedMemCurrent), zero = 0;
  void *a, *b, *c;
  CUDA(cudaMallocFromPoolAsync(&a, 6 * kMiB, pool, nullptr));
  CUDA(cudaMallocFromPoolAsync(&b, 1000, pool, nullptr));
  CUDA(cudaMallocAsync(&c, 4 * kMiB, nullptr));
  CHECK(pool_use(pool, cudaMemPoolAttrUsedMemCurrent) == 6 * kMiB + 1024);
  CHECK(pool_use(pool, cudaMemPoolAttrReservedMemCurrent) >= 6 * kMiB + 1024);
  CHECK(pool_use(current, cudaMemPoolAttrUsedMemCurrent) == before + 4 * kMiB);
  CUDA(cudaFreeAsync(a, nullptr));
  CUDA(cudaFreeAsync(c, nullptr));
  CUDA(cudaDeviceSynchronize());
  CHECK(pool_use(pool, cudaMemPoolAttrUsedMemCurrent) == 1024);
  CHECK(pool_use(pool, cudaMemPoolAttrUsedMemHigh) == 6 * kMiB + 1024);
  CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
  CHECK(pool_use(pool, cudaMemPoolAttrUsedMemHigh) == 1024);
  CHECK(pool_use(current, cudaMemPoolAttrUsedMemCurrent) == before);
  CUDA(cudaDeviceSetMemPool(0, pool));
  CUDA(cudaMallocAsync(&c, 4 * kMiB, nullptr));
  CHECK(pool_use(pool, cudaMemPoolAttrUsedMemCurrent) == 4 * kMiB + 1024);
  CUDA(cudaFree(c));
  CUDA(cudaMallocAsync(&c, 4 * kMiB, nullptr));
  CHECK(pool_use(pool, cudaMemPoolAttrUsedMemHigh) == 4 * kMiB + 1024);
  CUDA(cudaFree(c));
  CUDA(cudaFreeAsync(b, nullptr));
  CUDA(cudaDeviceSynchronize());
  CHECK(pool_use(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
  CUDA(cudaDeviceSetMemPool(0, current));
  CUDA(cudaMemPoolDestroy(pool));
}

static void check_threads() {
  int *p, found = 0;
  CUDA(cudaMalloc(&p, sizeof *p));
  CUDA(cudaMemset(p, 0, sizeof *p));
  CUDA(cudaDeviceSynchronize());
  for (int round = 0; round < 3; round++) {
    std::vector<std::thread> all;
    for (int t = 0; t < 4; t++)
      all.emplace_back([&] {
        for (int i = 0; i < 50; i++) add<<<1, 1>>>(p, 1);
      });
    for (std::thread &t : all) t.join();
  }
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaMemcpy(&found, p, sizeof found, cudaMemcpyDefault));
  CHECK(found == 600);
  CUDA(cudaFree(p));
}

// A device's pool and the kernels of the program outlive a reset; functions are found again.
static void check_reset() {
  for (int round = 0; round < 3; round++) {
    void *p;
    cudaFunction_t function = nullptr;
    CUDA(cudaMallocAsync(&p, 64, nullptr));
    CUDA(cudaFreeAsync(p, nullptr));
    CUDA(cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(add)));
    CHECK(function != nullptr);
    CUDA(cudaDeviceReset());
  }
}

static int wait_for_failure() {
  int *p;
  CUDA(cudaMalloc(&p, sizeof *p));
  std::printf("READY\n");
  std::fflush(stdout);
  for (;;) {
    add<<<1, 1>>>(p, 1);
    if (cudaError_t e = cudaDeviceSynchronize(); e != cudaSuccess) return e;
  }
}

// More than all buffers on the way take, and nothing that could be compressed, once the file "go"
// exists.
static int copy_much() {
  constexpr size_t kWords = 32 << 20;
  std::vector<unsigned> from(kWords), to(kWords);
  for (unsigned i = 0, x = 1; i < kWords; i++) from[i] = x = x * 1664525 + 1013904223;
  unsigned *p;
  CUDA(cudaMalloc(&p, kWords * sizeof *p));
  std::printf("READY\n");
  std::fflush(stdout);
  while (::access("go", F_OK) != 0) ::usleep(10'000);
  CUDA(cudaMemcpy(p, from.data(), kWords * sizeof *p, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(to.data(), p, kWords * sizeof *p, cudaMemcpyDeviceToHost));
  CHECK(from == to);
  return passed();
}

static void print_allocation(size_t mib, void **out) {
  cudaError_t e = cudaMalloc(out, mib << 20);
  std::printf("%zu MiB: %d\n", mib, static_cast<int>(e));
}

int main(int argc, char **argv) {
  std::string what = argc > 1 ? argv[1] : "";
  if (what == "wait") return wait_for_failure();
  if (what == "much") return copy_much();
  if (what == "memory") {
    void *a, *b, *c;
    print_allocation(8, &a);
    print_allocation(24, &b);
    CUDA(cudaFree(a));
    print_allocation(12, &b);
    print_allocation(8, &c);
    return 0;
  }
  cudaDeviceProp properties;
  CUDA(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s %d.%d\n", properties.name, properties.major, properties.minor);
  check_parameters_and_symbols();
  check_boxes();
  check_large_copies();
  check_streams_and_events();
  check_host_functions();
  check_memory();
  check_pools();
  check_threads();
  say<<<1, 2>>>(7);
  CUDA(cudaDeviceSynchronize());
  check_reset();
  return passed();
}
