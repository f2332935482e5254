// SPDX-License-Identifier: Apache-2.0
//
// Calls at unusual moments of a checkpoint. Prints one line when it is ready; what it waits for is
// a file of the working folder.
//
//   spin       a kernel waits for a flag, which is set when the file "stop" is there; the thread that
//              sets it asks the driver questions meanwhile
//   graph      a host function of a graph waits for a thread that copies when "stop" is there
//   threads    threads ask questions all the time, until "stop" is there
//   load FILE  when the file "load" is there, a thread loads a library with a constructor
//   exit       when the file "end" is there, exit() with a handler that calls the driver
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CHECK(call)                                                \
  do {                                                             \
    if (int e_ = static_cast<int>(call); e_ != 0) {                \
      std::printf("line %d: %s: error %d\n", __LINE__, #call, e_); \
      std::fflush(stdout);                                         \
      std::_Exit(1);                                               \
    }                                                              \
  } while (0)

__global__ void spin(volatile int *flag) {
  while (*flag == 0) {
  }
}
__global__ void add(unsigned *p) { p[threadIdx.x] += 1; }

static CUcontext context;
static CUdeviceptr block;

static void say(const char *text) {
  std::puts(text);
  std::fflush(stdout);
}

static void wait_for(const char *file) {
  while (access(file, F_OK) != 0) usleep(2000);
}

// Questions that neither submit work nor change device memory.
static void ask() {
  size_t free_bytes, total;
  CUdevice device;
  CUdeviceptr base;
  CUcontext now;
  void *entry;
  int value;
  CUdriverProcAddressQueryResult found;
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuCtxGetCurrent(&now));
  CHECK(now != context);
  CHECK(cuCtxGetDevice(&device));
  CHECK(cuMemGetInfo(&free_bytes, &total));
  CHECK(cuMemGetAddressRange(&base, &total, block));
  CHECK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
  CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
  CHECK(cuGetProcAddress("cuCtxGetId", &entry, CUDA_VERSION, 0, &found));
}

static int run_spin() {
  int *flag = nullptr;
  CHECK(cudaHostAlloc(&flag, sizeof *flag, cudaHostAllocMapped));
  *flag = 0;
  spin<<<1, 1>>>(flag);
  say("ready");
  std::thread([&] {
    while (access("stop", F_OK) != 0) ask();
    *static_cast<volatile int *>(flag) = 1;
  }).join();
  CHECK(cudaDeviceSynchronize());
  say("right");
  wait_for("end");
  return 0;
}

static std::atomic<bool> copied{false};

static void wait_for_copy(void *) {
  while (!copied) usleep(1000);
}

static int run_graph() {
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec exec;
  CUDA_HOST_NODE_PARAMS params{wait_for_copy, &copied}, got{};
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphAddHostNode(&node, graph, nullptr, 0, &params));
  CHECK(cuGraphHostNodeGetParams(node, &got));
  CHECK(got.fn != params.fn || got.userData != params.userData);
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphLaunch(exec, nullptr));
  say("ready");
  std::thread([] {
    CUstream other;
    unsigned four = 4;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    wait_for("stop");
    CHECK(cuMemcpyHtoDAsync(block, &four, sizeof four, other));
    CHECK(cuStreamSynchronize(other));
    copied = true;
  }).join();
  CHECK(cuCtxSynchronize());
  say("right");
  wait_for("end");
  return 0;
}

static int run_threads() {
  constexpr unsigned kWidth = 64;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!stop) ask();
    });
  unsigned rounds = 0, sums[kWidth] = {};
  CHECK(cudaMemset(reinterpret_cast<void *>(block), 0, sizeof sums));
  say("ready");
  for (; access("stop", F_OK) != 0; ++rounds, usleep(1000))
    add<<<1, kWidth>>>(reinterpret_cast<unsigned *>(block));
  CHECK(cudaMemcpy(sums, reinterpret_cast<void *>(block), sizeof sums, cudaMemcpyDeviceToHost));
  stop = true;
  for (std::thread &t : threads) t.join();
  for (unsigned sum : sums) CHECK(sum != rounds);
  say("right");
  return 0;
}

static int run_load(const char *library) {
  say("ready");
  wait_for("load");
  std::thread([=] {
    say("loading");
    CHECK(cuCtxSetCurrent(context));
    CHECK(dlopen(library, RTLD_NOW) == nullptr);
    say("loaded");
  }).join();
  CHECK(cuCtxSynchronize());
  say("right");
  return 0;
}

// The handler of the CUDA runtime may have destroyed the context before.
static void at_exit() {
  say("exiting");
  CHECK(cuCtxSetCurrent(context) == CUDA_ERROR_DEVICE_UNAVAILABLE);
  CHECK(cuMemFree(block) == CUDA_ERROR_DEVICE_UNAVAILABLE);
  say("right");
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (std::strcmp(what, "exit") == 0) std::atexit(at_exit);
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&block, 1 << 20));
  if (std::strcmp(what, "spin") == 0) return run_spin();
  if (std::strcmp(what, "graph") == 0) return run_graph();
  if (std::strcmp(what, "threads") == 0) return run_threads();
  if (std::strcmp(what, "load") == 0) return run_load(argv[2]);
  say("ready");
  wait_for("end");
  std::exit(7);
}
