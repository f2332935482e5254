// SPDX-License-Identifier: Apache-2.0
//
// Launches with attributes that only say how a device may overlap them, and with events that a
// launch records. Alone, in a recording, and on the node of a kernel.
#include <cuda.h>

#include "check.h"

#define OK(call) CHECK((call) == CUDA_SUCCESS)

__global__ void add(int *p, int v) { atomicAdd(p + threadIdx.x, v); }

static cudaLaunchConfig_t config(cudaStream_t s, std::vector<cudaLaunchAttribute> &attributes) {
  cudaLaunchConfig_t c{};
  c.gridDim = 2;
  c.blockDim = 32;
  c.stream = s;
  c.attrs = attributes.data();
  c.numAttrs = attributes.size();
  return c;
}

static std::vector<cudaLaunchAttribute> hints() {
  std::vector<cudaLaunchAttribute> all(4);
  all[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  all[0].val.programmaticStreamSerializationAllowed = 1;
  all[1].id = cudaLaunchAttributeMemSyncDomain;
  all[1].val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
  all[2].id = cudaLaunchAttributeMemSyncDomainMap;
  all[2].val.memSyncDomainMap = {0, 0};
  all[3].id = cudaLaunchAttributeIgnore;
  return all;
}

static int value_of(const int *p) {
  int v = 0;
  CUDA(cudaMemcpy(&v, p, sizeof v, cudaMemcpyDeviceToHost));
  return v;
}

static void check_hints(int *p, cudaStream_t s) {
  std::vector<cudaLaunchAttribute> all = hints();
  cudaLaunchConfig_t c = config(s, all);
  for (int i = 0; i < 3; i++) CUDA(cudaLaunchKernelEx(&c, add, p, 4));
  CUDA(cudaStreamSynchronize(s));
  CHECK(value_of(p) == 24);
}

// The event completes with the kernel: another stream that waits for it comes later.
static void check_events(int *p, cudaStream_t s) {
  cudaStream_t other;
  cudaEvent_t done;
  CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CUDA(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  int before = value_of(p);
  for (int kind = 0; kind < 2; kind++) {
    std::vector<cudaLaunchAttribute> all(1);
    if (kind == 0) {
      all[0].id = cudaLaunchAttributeProgrammaticEvent;
      all[0].val.programmaticEvent.event = done;
    } else {
      all[0].id = static_cast<cudaLaunchAttributeID>(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT);
      all[0].val.launchCompletionEvent.event = done;
    }
    cudaLaunchConfig_t c = config(s, all);
    CUDA(cudaLaunchKernelEx(&c, add, p, 1));
    CUDA(cudaStreamWaitEvent(other, done, 0));
    int seen = 0;
    CUDA(cudaMemcpyAsync(&seen, p, sizeof seen, cudaMemcpyDeviceToHost, other));
    CUDA(cudaStreamSynchronize(other));
    CHECK(seen == before + 2 * (kind + 1));
  }
  CUDA(cudaEventDestroy(done));
  CUDA(cudaStreamDestroy(other));
}

static void check_recording(int *p, cudaStream_t s) {
  std::vector<cudaLaunchAttribute> all = hints();
  cudaLaunchConfig_t c = config(s, all);
  cudaGraph_t g;
  cudaGraphExec_t x;
  int before = value_of(p);
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  CUDA(cudaLaunchKernelEx(&c, add, p, 1));
  CUDA(cudaLaunchKernelEx(&c, add, p, 2));
  CUDA(cudaStreamEndCapture(s, &g));
  CUDA(cudaGraphInstantiate(&x, g, 0));
  CUDA(cudaGraphLaunch(x, s));
  CUDA(cudaStreamSynchronize(s));
  CHECK(value_of(p) == before + 6);
  CUDA(cudaGraphExecDestroy(x));
  CUDA(cudaGraphDestroy(g));
}

int main() {
  int *p;
  cudaStream_t s;
  CUDA(cudaMalloc(&p, 32 * sizeof *p));
  CUDA(cudaMemset(p, 0, 32 * sizeof *p));
  CUDA(cudaStreamCreate(&s));
  check_hints(p, s);
  check_events(p, s);
  check_recording(p, s);
  return passed();
}
