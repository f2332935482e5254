// SPDX-License-Identifier: Apache-2.0
//
// captures threads | forms | context | long: captures of streams that look alike, that end in
// another way than they began, or that last. Prints "ready", waits while the file "pause" exists,
// and checks its results.
#include <cuda.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "driver_check.h"

static CUcontext context;
static CUdevice device;

static void wait_here() {
  std::puts("ready");
  std::fflush(stdout);
  while (access("pause", F_OK) == 0) usleep(2000);
}

static void CUDA_CB count(void *n) { ++*static_cast<std::atomic<int> *>(n); }

// Each thread has its own stream CU_STREAM_PER_THREAD. The capture of one ends, while that of the
// other goes on.
static void threads() {
  std::atomic<int> step{0}, calls{0};
  std::thread other([&] {
    CUgraph graph;
    OK(cuCtxSetCurrent(context));
    OK(cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    step = 1;
    while (step < 2) usleep(1000);
    OK(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
    step = 3;
  });
  while (step < 1) usleep(1000);
  OK(cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
  step = 2;
  while (step < 3) usleep(1000);
  other.join();
  CUgraph graph;
  CUgraphExec executable;
  OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, count, &calls));
  OK(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
  OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 5; i++) OK(cuGraphLaunch(executable, stream));
  OK(cuStreamSynchronize(stream));
  CHECK(calls == 5);
  wait_here();
  OK(cuGraphLaunch(executable, stream));
  OK(cuStreamSynchronize(stream));
  CHECK(calls == 6);
}

// A stream of its own is the same one in both forms of a call: a library is compiled without
// --default-stream per-thread, and the application with it.
static void forms() {
  CUstream stream;
  CUgraph graph;
  void *begin = nullptr;
  CUdriverProcAddressQueryResult found;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuGetProcAddress("cuStreamBeginCapture", &begin, 10010,
                      CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &found));
  OK(reinterpret_cast<CUresult (*)(CUstream, CUstreamCaptureMode)>(begin)(
      stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(cuStreamEndCapture(stream, &graph));
  wait_here();
}

// The end of a context ends the captures of its streams.
static void ended_context() {
  CUcontext own;
  CUstream stream;
#if CUDA_VERSION >= 13000
  OK(cuCtxCreate(&own, nullptr, 0, device));
#else
  OK(cuCtxCreate(&own, 0, device));
#endif
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(cuCtxDestroy(own));
  OK(cuCtxSetCurrent(context));
  wait_here();
}

// Until "pause" is gone. Goes on until the file "finish" exists.
static void long_capture() {
  CUstream stream;
  CUgraph graph;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  wait_here();
  OK(cuStreamEndCapture(stream, &graph));
  while (access("finish", F_OK) != 0) usleep(2000);
}

int main(int argc, char **argv) {
  const struct {
    const char *name;
    void (*run)();
  } all[] = {
      {"threads", threads}, {"forms", forms}, {"context", ended_context}, {"long", long_capture}};
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  for (auto &a : all)
    if (argc > 1 && std::strcmp(argv[1], a.name) == 0) return a.run(), std::puts("PASSED"), 0;
  return 2;
}
