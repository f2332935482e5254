// SPDX-License-Identifier: Apache-2.0
//
// refused managed | capture | heap | kernel | hostfunction | ipc: enters a state that cannot be
// checkpointed, or not at once, or (heap) only with a warning, or (ipc) that a memory owner or another
// node keeps it from.
// Prints "ready", leaves the state
// when the file "pause" has been removed, and checks its results.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "check.h"

__global__ void add_one(int *p) { *p += 1; }
__global__ void spin(volatile int *stop) {
  while (*stop == 0) {
  }
}

__device__ int *kept;
__global__ void take() { kept = static_cast<int *>(malloc(64)), *kept = 42; }
__global__ void look(int *out) { *out = *kept; }

static bool paused() { return access("pause", F_OK) == 0; }

static void wait_here() {
  std::puts("ready");
  std::fflush(stdout);
  while (paused()) usleep(2000);
}

static void managed() {
  int *p;
  CUDA(cudaMallocManaged(&p, sizeof *p));
  *p = 41;
  wait_here();
  add_one<<<1, 1>>>(p);
  CUDA(cudaDeviceSynchronize());
  CHECK(*p == 42);
  CUDA(cudaFree(p));
}

static void capture() {
  cudaStream_t s;
  cudaGraph_t graph;
  int *p;
  CUDA(cudaMalloc(&p, sizeof *p));
  CUDA(cudaMemset(p, 0, sizeof *p));
  CUDA(cudaStreamCreate(&s));
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  wait_here();
  add_one<<<1, 1, 0, s>>>(p);
  CUDA(cudaStreamEndCapture(s, &graph));
}

static void heap() {
  int *out, value = 0;
  take<<<1, 1>>>();
  CUDA(cudaDeviceSynchronize());
  wait_here();
  CUDA(cudaMalloc(&out, sizeof *out));
  look<<<1, 1>>>(out);
  CUDA(cudaMemcpy(&value, out, sizeof value, cudaMemcpyDeviceToHost));
  CHECK(value == 42);
}

static void kernel() {
  int *stop;
  CUDA(cudaMallocHost(&stop, sizeof *stop));
  *stop = 0;
  spin<<<1, 1>>>(stop);
  wait_here();
  *static_cast<volatile int *>(stop) = 1;
  CUDA(cudaDeviceSynchronize());
}

// One thread launches while it holds the lock that the host function needs.
static std::mutex lock;
static void wants_lock(void *) {
  usleep(3000);
  std::lock_guard guard(lock);
}
static void hostfunction() {
  cudaStream_t s;
  int *p;
  std::atomic<bool> stop{false};
  CUDA(cudaStreamCreate(&s));
  CUDA(cudaMalloc(&p, sizeof *p));
  std::thread other([&] {
    while (!stop) {
      {
        std::lock_guard guard(lock);
        CUDA(cudaLaunchHostFunc(s, wants_lock, nullptr));
        usleep(4000);
        add_one<<<1, 1, 0, s>>>(p);
        CUDA(cudaMemsetAsync(p, 0, sizeof *p, s));
      }
      CUDA(cudaStreamSynchronize(s));
    }
  });
  wait_here();
  stop = true;
  other.join();
  CUDA(cudaDeviceSynchronize());
}

// Events of such a program cannot be shared with other processes, and it is told so.
static void ipc() {
  int supported = 1;
  cudaIpcEventHandle_t handle{};
  cudaEvent_t event, opened;
  CUDA(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  CUDA(cudaEventRecord(event, nullptr));
  CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrIpcEventSupport, 0));
  CHECK(supported == 0);
  for (int i = 0; i < 2; i++) {
    CHECK(cudaIpcGetEventHandle(&handle, event) == cudaErrorNotSupported);
    CHECK(cudaIpcOpenEventHandle(&opened, handle) == cudaErrorNotSupported);
    cudaGetLastError();
    if (i == 0) wait_here();
  }
  CUDA(cudaEventSynchronize(event));
}

// Memory that an owner has, or that the Manager evicts, cannot be shared either.
static void ipc_memory() {
  int *p;
  cudaIpcMemHandle_t memory{};
  CUDA(cudaMalloc(&p, sizeof *p));
  wait_here();
  CHECK(cudaIpcGetMemHandle(&memory, p) == cudaErrorNotSupported);
  CHECK(cudaIpcOpenMemHandle(reinterpret_cast<void **>(&p), memory, cudaIpcMemLazyEnablePeerAccess) == cudaErrorNotSupported);
  CHECK(cudaIpcCloseMemHandle(p) == cudaErrorNotSupported);
}

int main(int argc, char **argv) {
  struct {
    const char *name;
    void (*run)();
  } const all[] = {{"managed", managed},
                   {"capture", capture},
                   {"heap", heap},
                   {"kernel", kernel},
                   {"hostfunction", hostfunction},
                   {"ipc", ipc},
                   {"ipc_memory", ipc_memory}};
  for (auto &a : all)
    if (argc > 1 && std::strcmp(argv[1], a.name) == 0) return a.run(), passed();
  return 2;
}
