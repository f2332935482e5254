// SPDX-License-Identifier: Apache-2.0
//
// Rules for programs with two devices (CUDA C++ programming guide, Multi-Device System): a copy in
// the default stream between the memories of two devices begins when all work of both has ended,
// and runs before what follows on either; cudaMemcpyPeer is also ordered with the current device.
// Launches in a stream of another device, and times between events of two devices, are errors.
#include <cuda.h>

#include <cstring>
#include <functional>

#include "check.h"

constexpr int kWords = 32, kBytes = kWords * 4;

// Runs for some milliseconds before it changes anything.
__global__ void slow_add(int *p, int v) {
  for (long long begun = clock64(); clock64() - begun < 4'000'000;) {
  }
  atomicAdd(p + threadIdx.x, v);
}

struct Pair {
  int *a, *b;  // on device 0 and 1
};

static void on(int device) { CUDA(cudaSetDevice(device)); }

static void add_on(int device, int *p, int v, cudaStream_t s = nullptr) {
  on(device);
  slow_add<<<1, kWords, 0, s>>>(p, v);
  CUDA(cudaGetLastError());
}

static cudaMemcpy3DPeerParms peer_parms(int *to, int to_device, int *from, int from_device) {
  cudaMemcpy3DPeerParms p{};
  p.dstPtr = make_cudaPitchedPtr(to, kBytes, kBytes, 1);
  p.srcPtr = make_cudaPitchedPtr(from, kBytes, kBytes, 1);
  p.dstDevice = to_device;
  p.srcDevice = from_device;
  p.extent = make_cudaExtent(kBytes, 1, 1);
  return p;
}

struct Form {
  const char *name;
  std::function<void(int *to, int to_device, int *from, int from_device)> copy;
};

static const Form kForms[] = {
    {"cudaMemcpyPeer",
     [](int *to, int d, int *from, int s) { CUDA(cudaMemcpyPeer(to, d, from, s, kBytes)); }},
    {"cudaMemcpy", [](int *to, int, int *from,
                      int) { CUDA(cudaMemcpy(to, from, kBytes, cudaMemcpyDeviceToDevice)); }},
    {"cudaMemcpyDefault",
     [](int *to, int, int *from, int) { CUDA(cudaMemcpy(to, from, kBytes, cudaMemcpyDefault)); }},
    {"cudaMemcpy2D", [](int *to, int, int *from,
                        int) { CUDA(cudaMemcpy2D(to, 64, from, 64, 64, 2, cudaMemcpyDefault)); }},
    {"cudaMemcpyAsync in the default stream",
     [](int *to, int, int *from, int) {
       CUDA(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDefault, nullptr));
     }},
    {"cudaMemcpyPeerAsync in the default stream",
     [](int *to, int d, int *from, int s) {
       CUDA(cudaMemcpyPeerAsync(to, d, from, s, kBytes, nullptr));
     }},
    {"cudaMemcpy3DPeer",
     [](int *to, int d, int *from, int s) {
       cudaMemcpy3DPeerParms p = peer_parms(to, d, from, s);
       CUDA(cudaMemcpy3DPeer(&p));
     }},
    {"cudaMemcpy3DPeerAsync in the default stream",
     [](int *to, int d, int *from, int s) {
       cudaMemcpy3DPeerParms p = peer_parms(to, d, from, s);
       CUDA(cudaMemcpy3DPeerAsync(&p, nullptr));
     }},
};

static void expect(int device, int *p, int value, const Form &form, const char *when) {
  int words[kWords];
  on(device);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaMemcpy(words, p, kBytes, cudaMemcpyDeviceToHost));
  if (words[5] != value)
    std::fprintf(stderr, "%s, %s: %d, not %d\n", form.name, when, words[5], value);
  CHECK(words[5] == value && words[kWords - 1] == value);
}

static void zero(const Pair &p) {
  for (int d : {0, 1}) {
    on(d);
    CUDA(cudaMemset(d == 0 ? p.a : p.b, 0, kBytes));
    CUDA(cudaDeviceSynchronize());
  }
}

static void orders(const Pair &p, const Form &form) {
  cudaStream_t s;
  for (int current : {0, 1}) {
    zero(p);
    add_on(0, p.a, 6);
    on(current);
    form.copy(p.b, 1, p.a, 0);
    add_on(1, p.b, 1);
    expect(1, p.b, 7, form, "source busy, then work on the destination");

    zero(p);
    add_on(1, p.b, 6);
    on(current);
    form.copy(p.b, 1, p.a, 0);
    add_on(0, p.a, 9);
    expect(1, p.b, 0, form, "destination busy, then work on the source");

    // A stream that does not wait for the default stream, and one that is made after the copy.
    zero(p);
    on(0);
    CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    add_on(0, p.a, 6, s);
    CUDA(cudaStreamDestroy(s));
    on(current);
    form.copy(p.b, 1, p.a, 0);
    on(1);
    CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    add_on(1, p.b, 1, s);
    CUDA(cudaStreamDestroy(s));
    expect(1, p.b, 7, form, "streams of their own");
  }
}

// In a stream of its own a copy waits for that stream only.
static void in_streams(const Pair &p) {
  cudaStream_t s;
  cudaEvent_t e;
  zero(p);
  on(0);
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  add_on(0, p.a, 6, s);
  CUDA(cudaMemcpyPeerAsync(p.b, 1, p.a, 0, kBytes, s));
  CUDA(cudaEventRecord(e, s));
  on(1);
  CUDA(cudaStreamWaitEvent(nullptr, e, 0));
  add_on(1, p.b, 1);
  expect(1, p.b, 7, {"cudaMemcpyPeerAsync", nullptr}, "in a stream");
  on(0);
  CUDA(cudaEventDestroy(e));
  CUDA(cudaStreamDestroy(s));
  CHECK(cudaMemcpyPeer(p.b, 7, p.a, 0, kBytes) == cudaErrorInvalidDevice);
}

static void misuse(const Pair &p) {
  cudaStream_t other;
  cudaEvent_t a, b;
  float ms;
  on(0);
  CUDA(cudaEventCreate(&a));
  CUDA(cudaEventRecord(a));
  CUDA(cudaDeviceSynchronize());
  on(1);
  CUDA(cudaStreamCreate(&other));
  CUDA(cudaEventCreate(&b));
  CUDA(cudaEventRecord(b));
  CUDA(cudaDeviceSynchronize());
  on(0);
  slow_add<<<1, kWords, 0, other>>>(p.b, 1);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventElapsedTime(&ms, a, b) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(a, other) == cudaErrorInvalidResourceHandle);
  // These may be called with another current device.
  CUDA(cudaEventSynchronize(b));
  CUDA(cudaEventQuery(b));
  CUDA(cudaStreamWaitEvent(other, a, 0));
  CUDA(cudaMemsetAsync(p.b, 0, kBytes, other));
  CUDA(cudaStreamSynchronize(other));
  CUDA(cudaStreamDestroy(other));
  CUDA(cudaEventDestroy(b));
  (void)cudaGetLastError();
}

// Streams of a capture, other than its origin, may be destroyed before it ends.
static void captured_streams(const Pair &p, bool joined) {
  on(0);
  CUDA(cudaMemset(p.a, 0, kBytes));
  cudaStream_t s, t;
  cudaEvent_t forked, ended;
  cudaGraph_t graph;
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  CUDA(cudaEventCreate(&forked));
  CUDA(cudaEventCreate(&ended));
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  CUDA(cudaEventRecord(forked, s));
  CUDA(cudaStreamWaitEvent(t, forked, 0));
  add_on(0, p.a, 10, t);
  CUDA(cudaEventRecord(ended, t));
  if (joined) CUDA(cudaStreamWaitEvent(s, ended, 0));
  CUDA(cudaStreamDestroy(t));
  CUDA(cudaEventDestroy(forked));
  CUDA(cudaEventDestroy(ended));
  std::vector<void *> junk;
  for (size_t bytes = 32; bytes < 2048; bytes += 16) {
    junk.push_back(std::malloc(bytes));
    std::memset(junk.back(), 0x5a, bytes);
  }
  add_on(0, p.a, 100, s);
  cudaError_t e = cudaStreamEndCapture(s, &graph);
  for (void *j : junk) std::free(j);
  CHECK(e == (joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined));
  (void)cudaGetLastError();
  if (joined) {
    cudaGraphExec_t exec;
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CUDA(cudaGraphLaunch(exec, s));
    CUDA(cudaStreamSynchronize(s));
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    expect(0, p.a, 110, {"capture", nullptr}, "a stream destroyed");
  }
  CUDA(cudaStreamDestroy(s));
}

// As numba does at its end: it has popped all contexts before.
static void free_without_context() {
  int *p[2];
  for (int d = 0; d < 2; d++) {
    on(d);
    CUDA(cudaMalloc(&p[d], kBytes));
    slow_add<<<1, kWords>>>(p[d], 1);
  }
  CUcontext context;
  while (cuCtxGetCurrent(&context) == CUDA_SUCCESS && context)
    CHECK(cuCtxPopCurrent(&context) == CUDA_SUCCESS);
  for (int d = 0; d < 2; d++) CHECK(cuMemFree(reinterpret_cast<CUdeviceptr>(p[d])) == CUDA_SUCCESS);
  CHECK(cuMemFree(reinterpret_cast<CUdeviceptr>(p[0])) == CUDA_ERROR_INVALID_VALUE);
}

int main() {
  Pair p{};
  on(0);
  CUDA(cudaMalloc(&p.a, kBytes));
  on(1);
  CUDA(cudaMalloc(&p.b, kBytes));
  for (const Form &form : kForms) orders(p, form);
  in_streams(p);
  misuse(p);
  captured_streams(p, true);
  captured_streams(p, false);
  free_without_context();
  return passed();
}
