// SPDX-License-Identifier: Apache-2.0
//
// A test moves the devices of this program one by one, so that some are of its own node and others
// of another node. In each step it uses each device, and then everything that CUDA allows between two
// devices and between a device and another one's context: copies of all kinds, fills, waits, host
// functions, graphs, frees. It checks everything against the same steps on the host.
//
//   remote_split [STEPS [managed]]   prints "step N" after each step, and whether it gets managed
//                                    memory; with "managed" it keeps some from the start
#include <cuda.h>

#include <algorithm>

#include "wanted_steps.h"

constexpr int kWords = 1 << 13, kThreads = 128, kRow = 96, kRows = 20;
using Words = std::vector<unsigned>;

__device__ unsigned total = 7;
__constant__ unsigned factor = 3;

__global__ void change(unsigned *words, unsigned n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  words[i] = words[i] * factor + n;
  if (i == 0) atomicAdd(&total, n);
}
__global__ void add_one(unsigned *words) { words[1] += 1; }

// A host function for which what comes behind it must wait.
void add_late(void *word) {
  usleep(30000);
  *static_cast<unsigned *>(word) += 1000;
}

#define OK(call) CHECK((call) == CUDA_SUCCESS)

struct Device {
  int number = 0;
  unsigned *words = nullptr, *rows = nullptr, *pinned = nullptr;
  size_t pitch = 0;
  cudaArray_t array;
  cudaStream_t stream;
  cudaEvent_t event;
  cudaGraphExec_t graph;
  int called = 0;
  unsigned sum = 7, factor = 3;
  Words host = Words(kWords), table = Words(kRow * kRows), picture = Words(kRow * kRows);

  void use() { CUDA(cudaSetDevice(number)); }

  void begin(int n) {
    number = n;
    use();
    CUDA(cudaMalloc(&words, kWords * 4));
    CUDA(cudaMallocPitch(&rows, &pitch, kRow * 4, kRows));
    CUDA(cudaMallocHost(&pinned, kWords * 4));
    cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
    CUDA(cudaMallocArray(&array, &format, kRow, kRows));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&event));
    for (int i = 0; i < kWords; i++) host[i] = i * (n + 1);
    for (int i = 0; i < kRow * kRows; i++) table[i] = i + n, picture[i] = i * 3 + n;
    CUDA(cudaMemcpy(words, host.data(), kWords * 4, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy2D(rows, pitch, table.data(), kRow * 4, kRow * 4, kRows, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy2DToArray(array, 0, 0, picture.data(), kRow * 4, kRow * 4, kRows, cudaMemcpyHostToDevice));
    factor = n + 3;
    CUDA(cudaMemcpyToSymbol(::factor, &factor, sizeof factor));
    record();
  }

  void record() {
    cudaGraph_t recorded;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    change<<<kWords / kThreads, kThreads, 0, stream>>>(words, 2);
    CUDA(cudaStreamEndCapture(stream, &recorded));
    CUDA(cudaGraphInstantiate(&graph, recorded, 0));
    CUDA(cudaGraphDestroy(recorded));
  }

  void changed(unsigned n) {
    for (unsigned &w : host) w = w * factor + n;
    sum += n;
  }

  void step(int round) {
    use();
    change<<<kWords / kThreads, kThreads, 0, stream>>>(words, round + number);
    CUDA(cudaGraphLaunch(graph, stream));
    CUDA(cudaLaunchHostFunc(stream, [](void *n) { ++*static_cast<int *>(n); }, &called));
    CUDA(cudaEventRecord(event, stream));
    changed(round + number);
    changed(2);
  }

  void check(int round) {
    use();
    CUDA(cudaStreamSynchronize(stream));
    CHECK(called == round + 1);
    Words found(kWords);
    CUDA(cudaMemcpy(found.data(), words, kWords * 4, cudaMemcpyDeviceToHost));
    CHECK(found == host);
    found.resize(kRow * kRows);
    CUDA(cudaMemcpy2D(found.data(), kRow * 4, rows, pitch, kRow * 4, kRows, cudaMemcpyDeviceToHost));
    CHECK(found == table);
    CUDA(cudaMemcpy2DFromArray(found.data(), kRow * 4, array, 0, 0, kRow * 4, kRows, cudaMemcpyDeviceToHost));
    CHECK(found == picture);
    unsigned now = 0;
    CUDA(cudaMemcpyFromSymbol(&now, ::total, sizeof now));
    CHECK(now == sum);
    cudaFuncAttributes of;
    CUDA(cudaFuncGetAttributes(&of, change));
    CHECK(of.maxThreadsPerBlock >= kThreads);
    cudaPointerAttributes pointer;
    CUDA(cudaPointerGetAttributes(&pointer, words));
    CHECK(pointer.device == number);
    cudaDeviceProp p;
    char bus[32];
    int same = -1;
    CUDA(cudaGetDeviceProperties(&p, number));
    CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, number));
    CUDA(cudaDeviceGetByPCIBusId(&same, bus));
    CHECK(same >= 0);
  }
};

// In the context of `a`, and mostly in its stream.
void between(Device &a, Device &b, int round) {
  constexpr int n = 1000;
  a.use();
  // The stream of the one waits for the event of the other, which must come first.
  CUDA(cudaSetDevice(b.number));
  b.pinned[0] = 0;
  CUDA(cudaLaunchHostFunc(b.stream, add_late, b.pinned));
  add_one<<<1, 1, 0, b.stream>>>(b.words);
  CUDA(cudaEventRecord(b.event, b.stream));
  b.host[1] += 1;
  a.use();
  CUDA(cudaStreamWaitEvent(a.stream, b.event, 0));
  CUDA(cudaMemcpyPeerAsync(a.words + 8, a.number, b.words, b.number, 8 * 4, a.stream));
  std::copy_n(b.host.begin(), 8, a.host.begin() + 8);
  CUDA(cudaStreamSynchronize(a.stream));
  // Whole, asynchronous, and in both directions.
  CUDA(cudaMemcpyPeer(b.words + 100, b.number, a.words + kWords / 2, a.number, n * 4));
  std::copy_n(a.host.begin() + kWords / 2, n, b.host.begin() + 100);
  CUDA(cudaMemcpyAsync(a.words + 2000, b.words + 50, n * 4, cudaMemcpyDefault, a.stream));
  std::copy_n(b.host.begin() + 50, n, a.host.begin() + 2000);
  CUDA(cudaMemcpyAsync(b.words + 4000, a.words + 2500, n * 4, cudaMemcpyDeviceToDevice, a.stream));
  std::copy_n(a.host.begin() + 2500, n, b.host.begin() + 4000);
  CUDA(cudaStreamSynchronize(a.stream));
  // Rows and arrays.
  CUDA(cudaMemcpy2D(b.rows + 4, b.pitch, a.rows, a.pitch, 32 * 4, kRows / 2, cudaMemcpyDeviceToDevice));
  for (int y = 0; y < kRows / 2; y++) std::copy_n(a.table.begin() + y * kRow, 32, b.table.begin() + y * kRow + 4);
  CUDA(cudaMemcpy2DArrayToArray(b.array, 8, 2, a.array, 16, 1, 64, 5, cudaMemcpyDeviceToDevice));
  for (int y = 0; y < 5; y++)
    std::copy_n(a.picture.begin() + (1 + y) * kRow + 4, 16, b.picture.begin() + (2 + y) * kRow + 2);
  CUDA(cudaMemcpy2DToArray(b.array, 0, 9, a.rows, a.pitch, kRow * 4, 3, cudaMemcpyDeviceToDevice));
  std::copy_n(a.table.begin(), 3 * kRow, b.picture.begin() + 9 * kRow);
  // Memory and streams of the other one, in this context.
  unsigned few[4] = {unsigned(round), 5, 6, 7}, back[4] = {};
  CUDA(cudaMemcpy(b.words + 20, few, sizeof few, cudaMemcpyHostToDevice));
  std::copy_n(few, 4, b.host.begin() + 20);
  CUDA(cudaMemcpy(back, b.words + 20, sizeof back, cudaMemcpyDeviceToHost));
  CHECK(std::equal(few, few + 4, back));
  CUDA(cudaMemset(b.words + 30, round, 4 * 3));
  std::fill_n(b.host.begin() + 30, 3, 0x01010101u * unsigned(round & 255));
  std::copy_n(b.host.begin() + 40, 10, b.pinned);
  CUDA(cudaLaunchHostFunc(b.stream, add_late, b.pinned));
  CUDA(cudaMemcpyAsync(a.words + 60, b.pinned, 10 * 4, cudaMemcpyHostToDevice, b.stream));
  std::copy_n(b.host.begin() + 40, 10, a.host.begin() + 60);
  a.host[60] += 1000;
  CUDA(cudaMemcpyAsync(b.words + 70, b.pinned, 10 * 4, cudaMemcpyHostToDevice, b.stream));
  std::copy_n(a.host.begin() + 60, 10, b.host.begin() + 70);
  CUDA(cudaMemcpyAsync(b.pinned, b.words + 70, 10 * 4, cudaMemcpyDeviceToHost, b.stream));
  CUDA(cudaStreamSynchronize(b.stream));
  CHECK(std::equal(b.pinned, b.pinned + 10, b.host.begin() + 70));
  CHECK(cudaEventQuery(b.event) == cudaSuccess && cudaStreamQuery(b.stream) == cudaSuccess);
  // What ends while the other device is the current one.
  CUDA(cudaSetDevice(b.number));
  unsigned *more = nullptr, *ordered = nullptr;
  cudaEvent_t event;
  cudaStream_t stream;
  CUDA(cudaMalloc(&more, 3 << 20));
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaMallocAsync(&ordered, 4096, stream));
  CUDA(cudaEventCreate(&event));
  CUDA(cudaMemsetAsync(ordered, 1, 4096, stream));
  CUDA(cudaEventRecord(event, stream));
  a.use();
  CUDA(cudaEventSynchronize(event));
  CUDA(cudaMemcpy(back, ordered, 4, cudaMemcpyDeviceToHost));
  CHECK(back[0] == 0x01010101);
  CUDA(cudaFreeAsync(ordered, stream));
  CUDA(cudaFree(more));
  CUDA(cudaEventDestroy(event));
  CUDA(cudaStreamDestroy(stream));
}

// Managed memory needs all devices on one node.
void ask_for_managed_memory() {
  unsigned *p = nullptr;
  cudaError_t e = cudaMallocManaged(&p, 4096);
  std::printf("managed memory: %s\n", cudaGetErrorName(e));
  if (e == cudaSuccess) CUDA(cudaFree(p));
  (void)cudaGetLastError();
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 3;
  std::vector<Device> devices(devices_seen());
  std::printf("%zu devices\n", devices.size());
  for (size_t i = 0; i < devices.size(); i++) devices[i].begin(static_cast<int>(i));
  unsigned *kept = nullptr;
  if (argc > 2) CUDA(cudaMallocManaged(&kept, 4096));
  for (int r = 0; r < steps; r++) {
    ask_for_managed_memory();
    for (Device &d : devices) d.step(r);
    for (Device &d : devices) CUDA(cudaEventSynchronize(d.event));
    for (size_t i = 0; i < devices.size(); i++)
      if (devices.size() > 1) between(devices[i], devices[(i + 1) % devices.size()], r);
    wait_until_wanted(r + 1);
    for (Device &d : devices) d.check(r);
  }
  return passed();
}
