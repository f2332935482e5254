// SPDX-License-Identifier: Apache-2.0
//
// A random history of CUDA objects on two devices: streams, events, memory, captures, graphs. Each
// is created, used and destroyed in any order, also while its work runs, as the seed determines. A
// test suspends, resumes, dumps and moves the program meanwhile. Each buffer has one value in all
// its words, which the program knows, so it checks what it reads.
//
//   history SEED      until there is no file "pause"
#include <unistd.h>

#include <random>

#include "check.h"

constexpr int kWords = 512, kBytes = kWords * 4;

__global__ void add(int *d, int v) { d[threadIdx.x] += v; }
__global__ void slow_add(int *d, int v) {
  for (int i = 0; i < 200; i++) atomicAdd(d + threadIdx.x, i % 2 == 0 ? 1 : -1);
  d[threadIdx.x] += v;
}

struct Buffer {
  int *words;
  int device, value;
};

struct GraphOf {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  size_t buffer;
  int sum;
};

class History {
 public:
  explicit History(unsigned seed) : random_(seed) {
    CUDA(cudaGetDeviceCount(&devices_));
    for (int i = 0; i < 6; i++) make_buffer();
  }

  void step() {
    using Action = void (History::*)();
    static constexpr Action kActions[] = {
        &History::make_buffer,  &History::drop_buffer, &History::work,    &History::work,
        &History::check,        &History::copy,        &History::peer,    &History::fork,
        &History::launch_graph, &History::drop_graph,  &History::ordered, &History::ahead};
    (this->*kActions[pick(sizeof kActions / sizeof *kActions)])();
  }

  int end() {
    for (Buffer &b : buffers_) check(b);
    while (!graphs_.empty()) drop_graph();
    for (Buffer &b : buffers_) CUDA(cudaFree(b.words));
    return passed();
  }

 private:
  int pick(size_t n) {
    return static_cast<int>(std::uniform_int_distribution<size_t>(0, n - 1)(random_));
  }
  Buffer &any() {
    Buffer &b = buffers_[pick(buffers_.size())];
    CUDA(cudaSetDevice(b.device));
    return b;
  }

  void make_buffer() {
    if (buffers_.size() >= 12) return;
    int device = pick(devices_);
    CUDA(cudaSetDevice(device));
    Buffer b{nullptr, device, pick(1000)};
    std::vector<int> words(kWords, b.value);
    CUDA(cudaMalloc(&b.words, kBytes));
    CUDA(cudaMemcpy(b.words, words.data(), kBytes, cudaMemcpyHostToDevice));
    buffers_.push_back(b);
  }
  void drop_buffer() {
    if (buffers_.size() <= 4 || !graphs_.empty()) return;
    size_t i = pick(buffers_.size());
    CUDA(cudaFree(buffers_[i].words));
    buffers_[i] = buffers_.back();
    buffers_.pop_back();
  }

  // The stream and the events are destroyed while the work may still run.
  void work() {
    Buffer &b = any();
    cudaStream_t s, t;
    cudaEvent_t e;
    int v = pick(100), w = pick(100);
    CUDA(cudaStreamCreate(&s));
    CUDA(cudaStreamCreate(&t));
    CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    add<<<1, kWords, 0, s>>>(b.words, v);
    CUDA(cudaGetLastError());
    CUDA(cudaEventRecord(e, s));
    CUDA(cudaStreamWaitEvent(t, e, 0));
    CUDA(cudaStreamDestroy(s));
    CUDA(cudaEventDestroy(e));
    slow_add<<<1, kWords, 0, t>>>(b.words, w);
    CUDA(cudaStreamDestroy(t));
    b.value += v + w;
  }
  void check() { check(any()); }
  void check(Buffer &b) {
    std::vector<int> words(kWords);
    CUDA(cudaSetDevice(b.device));
    CUDA(cudaMemcpy(words.data(), b.words, kBytes, cudaMemcpyDeviceToHost));
    for (int w : words) {
      if (w != b.value)
        std::printf("a buffer of device %d holds %d, not %d\n", b.device, w, b.value);
      CHECK(w == b.value);
    }
  }
  // From any device to any other, with any third one as the current device.
  void copy() {
    Buffer &a = any(), &b = any();
    if (&a == &b) return;
    CUDA(cudaSetDevice(pick(devices_)));
    CUDA(cudaMemcpy(b.words, a.words, kBytes, cudaMemcpyDefault));
    b.value = a.value;
  }
  void peer() {
    Buffer &a = any();
    add<<<1, kWords>>>(a.words, 1);
    a.value++;
    Buffer &b = any();
    if (&a == &b) return;
    slow_add<<<1, kWords>>>(b.words, 7);
    CUDA(cudaSetDevice(pick(devices_)));
    CUDA(cudaMemcpyPeer(b.words, b.device, a.words, a.device, kBytes));
    b.value = a.value;
    CUDA(cudaSetDevice(b.device));
    add<<<1, kWords>>>(b.words, 2);
    b.value += 2;
  }
  // A capture with two streams; one is destroyed before the capture ends.
  void fork() {
    if (graphs_.size() >= 6) return;
    size_t i = pick(buffers_.size());
    Buffer &b = buffers_[i];
    CUDA(cudaSetDevice(b.device));
    GraphOf g{nullptr, nullptr, i, 0};
    cudaStream_t s, t;
    cudaEvent_t forked, joined;
    CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&forked));
    CUDA(cudaEventCreate(&joined));
    CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    add<<<1, kWords, 0, s>>>(b.words, 1);
    CUDA(cudaEventRecord(forked, s));
    CUDA(cudaStreamWaitEvent(t, forked, 0));
    for (int n = pick(3); n >= 0; n--) {
      add<<<1, kWords, 0, t>>>(b.words, 10);
      g.sum += 10;
    }
    CUDA(cudaEventRecord(joined, t));
    CUDA(cudaStreamWaitEvent(s, joined, 0));
    CUDA(cudaStreamDestroy(t));
    CUDA(cudaEventDestroy(forked));
    CUDA(cudaEventDestroy(joined));
    cudaStream_t other;  // may have the address of the one that was destroyed
    CUDA(cudaStreamCreate(&other));
    add<<<1, kWords, 0, s>>>(b.words, 100);
    CUDA(cudaStreamEndCapture(s, &g.graph));
    CUDA(cudaStreamDestroy(other));
    CUDA(cudaStreamDestroy(s));
    CUDA(cudaGraphInstantiate(&g.exec, g.graph, 0));
    if (pick(2) == 0) {
      CUDA(cudaGraphDestroy(g.graph));
      g.graph = nullptr;
    }
    g.sum += 101;
    graphs_.push_back(g);
  }
  void launch_graph() {
    if (graphs_.empty()) return;
    GraphOf &g = graphs_[pick(graphs_.size())];
    Buffer &b = buffers_[g.buffer];
    CUDA(cudaSetDevice(b.device));
    cudaStream_t s;
    CUDA(cudaStreamCreate(&s));
    CUDA(cudaGraphLaunch(g.exec, s));
    CUDA(cudaStreamDestroy(s));
    b.value += g.sum;
  }
  void drop_graph() {
    if (graphs_.empty()) return;
    GraphOf g = graphs_.back();
    graphs_.pop_back();
    CUDA(cudaSetDevice(buffers_[g.buffer].device));
    CUDA(cudaGraphExecDestroy(g.exec));
    if (g.graph != nullptr) CUDA(cudaGraphDestroy(g.graph));
  }
  // Memory of a pool, freed in the stream before the stream is destroyed.
  void ordered() {
    Buffer &b = any();
    cudaStream_t s;
    int *p = nullptr;
    CUDA(cudaStreamCreate(&s));
    CUDA(cudaMallocAsync(&p, kBytes, s));
    CUDA(cudaMemcpyAsync(p, b.words, kBytes, cudaMemcpyDeviceToDevice, s));
    add<<<1, kWords, 0, s>>>(p, 3);
    CUDA(cudaMemcpyAsync(b.words, p, kBytes, cudaMemcpyDeviceToDevice, s));
    CUDA(cudaFreeAsync(p, s));
    CUDA(cudaStreamDestroy(s));
    b.value += 3;
  }
  // Much work, and the program computes.
  void ahead() {
    for (int i = 0; i < 20; i++) work();
    ::usleep(pick(3000));
  }

  std::mt19937 random_;
  int devices_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<GraphOf> graphs_;
};

int main(int argc, char **argv) {
  History history(argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1);
  std::puts("READY");
  std::fflush(stdout);
  for (int i = 0; i < 100 || ::access("pause", F_OK) == 0; i++) {
    history.step();
    if (i % 20 == 19) std::puts("STEPPING");
    std::fflush(stdout);
  }
  return history.end();
}
