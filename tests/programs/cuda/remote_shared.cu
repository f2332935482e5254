// SPDX-License-Identifier: Apache-2.0
//
// Memory that host and device share: managed memory and variables, mapped page-locked memory, and
// registered memory. The result of each step depends on what both sides did in the steps before.
//
//   remote_shared [STEPS]   prints "step N" after each step; makes as many as the file "steps" says,
//                           or all of them
#include <cuda.h>
#include <fcntl.h>

#include <algorithm>
#include <vector>

#include "wanted_steps.h"

__managed__ unsigned counter = 3;
__managed__ unsigned table[1000] = {7, 8, 9};
__device__ unsigned hidden = 5;

__global__ void grow(unsigned *p, int n, unsigned by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = p[i] * 3 + by;
}
__global__ void count(unsigned by) {
  counter += by + hidden++;
  for (int i = 0; i < 1000; i++) table[i] += i;
}
struct Node {
  Node *next;
  unsigned value;
};
__global__ void walk(Node *n) {
  for (; n; n = n->next) n->value = n->value * 5 + 1;
}
__global__ void wait_for(volatile unsigned *flag, volatile unsigned *data, unsigned *out) {
  while (*flag == 0) {
  }
  *out = *data;
}

constexpr int kWords = 100'003, kNodes = 300, kBlock = 256;

void grow_on_host(std::vector<unsigned> &v, unsigned by) {
  for (unsigned &x : v) x = x * 3 + by;
}

void launch_grow(unsigned *p, int n, unsigned by, cudaStream_t s = nullptr) {
  grow<<<(n + kBlock - 1) / kBlock, kBlock, 0, s>>>(p, n, by);
}

// Of each step; `all`, `mapped`, `registered` are what the host expects there.
struct State {
  unsigned *managed, *mapped, *mapped_there, *registered, *registered_there;
  std::vector<unsigned> all, half, own;
  Node *list = nullptr;
  unsigned counter = 3, hidden = 5, node = 0;
  cudaStream_t stream;

  State() : all(kWords, 1), half(kWords / 2, 2), own(5000, 4) {
    CUDA(cudaMallocManaged(&managed, kWords * sizeof *managed));
    CUDA(cudaHostAlloc(&mapped, half.size() * sizeof *mapped, cudaHostAllocMapped));
    CUDA(cudaHostGetDevicePointer(&mapped_there, mapped, 0));
    registered = static_cast<unsigned *>(std::malloc(own.size() * sizeof *registered));
    CUDA(cudaHostRegister(registered, own.size() * sizeof *registered, cudaHostRegisterMapped));
    CUDA(cudaHostGetDevicePointer(&registered_there, registered, 0));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < kWords; i++) managed[i] = 1;
    for (size_t i = 0; i < half.size(); i++) mapped[i] = 2;
    for (size_t i = 0; i < own.size(); i++) registered[i] = 4;
    for (int i = 0; i < kNodes; i++) {
      Node *n;
      CUDA(cudaMallocManaged(&n, sizeof *n));
      *n = {list, 0};
      list = n;
    }
  }

  void check() const {
    for (int i = 0; i < kWords; i++) CHECK(managed[i] == all[i]);
    for (size_t i = 0; i < half.size(); i++) CHECK(mapped[i] == half[i]);
    for (size_t i = 0; i < own.size(); i++) CHECK(registered[i] == own[i]);
    for (Node *n = list; n; n = n->next) CHECK(n->value == node);
    CHECK(::counter == counter && table[0] == 7 && table[999] % 999 == 0);
  }
};

// Kernels write, then the host writes a part, then kernels again.
void both_sides(State &s, unsigned round) {
  launch_grow(s.managed, kWords, round);
  launch_grow(s.mapped_there, s.half.size(), round);
  launch_grow(s.registered_there, s.own.size(), round);
  walk<<<1, 1>>>(s.list);
  count<<<1, 1>>>(round);
  CUDA(cudaDeviceSynchronize());
  grow_on_host(s.all, round);
  grow_on_host(s.half, round);
  grow_on_host(s.own, round);
  s.node = s.node * 5 + 1;
  s.counter += round + s.hidden++;
  s.check();
  for (int i = round % 7; i < kWords; i += 1000) s.managed[i] = s.all[i] += 11;
  s.mapped[5] = s.half[5] = round;
  s.registered[17] += 1, s.own[17] += 1;
  counter = s.counter += 100;
}

// Where host and device cannot use managed memory at the same time, the host reads without having
// waited: it sees what the kernel wrote.
void without_a_wait(State &s) {
  int at_the_same_time = 0;
  CUDA(cudaDeviceGetAttribute(&at_the_same_time, cudaDevAttrConcurrentManagedAccess, 0));
  launch_grow(s.managed, kWords, 1);
  if (at_the_same_time) CUDA(cudaDeviceSynchronize());
  grow_on_host(s.all, 1);
  CHECK(s.managed[kWords - 1] == s.all[kWords - 1]);
  s.managed[3] = s.all[3] = 33;
}

void copies(State &s) {
  std::vector<unsigned> plain(kWords);
  launch_grow(s.managed, kWords, 2);
  grow_on_host(s.all, 2);
  CUDA(cudaMemcpy(plain.data(), s.managed, kWords * sizeof(unsigned), cudaMemcpyDefault));
  CHECK(plain == s.all);
  for (unsigned &x : plain) x ^= 0x55;
  CUDA(cudaMemcpy(s.managed, plain.data(), 1000 * sizeof(unsigned), cudaMemcpyHostToDevice));
  std::copy_n(plain.begin(), 1000, s.all.begin());
  CHECK(s.managed[999] == s.all[999]);
  // One kernel's result in mapped memory is copied without a wait in between.
  launch_grow(s.mapped_there, s.half.size(), 9, s.stream);
  grow_on_host(s.half, 9);
  CUDA(cudaMemcpyAsync(s.managed, s.mapped, 500 * sizeof(unsigned), cudaMemcpyDefault, s.stream));
  std::copy_n(s.half.begin(), 500, s.all.begin());
  CUDA(cudaMemsetAsync(s.managed + 600, 1, 40, s.stream));
  for (int i = 0; i < 10; i++) s.all[600 + i] = 0x01010101;
  CUDA(cudaStreamSynchronize(s.stream));
  CUDA(cudaMemcpy2D(s.managed + 700, 40, s.managed + 100, 80, 20, 3, cudaMemcpyDefault));
  for (int row = 0; row < 3; row++)
    std::copy_n(s.all.begin() + 100 + row * 20, 5, s.all.begin() + 700 + row * 10);
}

// System calls read and write such memory, too.
void files(State &s) {
  launch_grow(s.managed, kWords, 4);
  CUDA(cudaDeviceSynchronize());
  grow_on_host(s.all, 4);
  int file = ::open("words", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(::write(file, s.managed, 4000) == 4000 && ::lseek(file, 0, SEEK_SET) == 0);
  CHECK(::read(file, s.managed + 2000, 4000) == 4000);
  ::close(file);
  std::copy_n(s.all.begin(), 1000, s.all.begin() + 2000);
}

void in_a_host_function(State &s) {
  launch_grow(s.managed, kWords, 5, s.stream);
  grow_on_host(s.all, 5);
  auto change = [](void *data) {
    auto *state = static_cast<State *>(data);
    state->managed[1] += state->managed[2];
    state->mapped[0] = 77;
  };
  CUDA(cudaLaunchHostFunc(s.stream, change, &s));
  launch_grow(s.managed, kWords, 6, s.stream);
  launch_grow(s.mapped_there, 1, 6, s.stream);
  CUDA(cudaStreamSynchronize(s.stream));
  s.all[1] += s.all[2];
  s.half[0] = 77 * 3 + 6;
  grow_on_host(s.all, 6);
}

// A wait for another context is none for this one.
void wait_for_another_context() {
  CUcontext other;
  CHECK(cuCtxCreate(&other, nullptr, 0, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(cuCtxDestroy(other) == CUDA_SUCCESS);
}

// A kernel that runs while the host writes what it waits for.
void while_a_kernel_runs(State &s) {
  unsigned *words;
  CUDA(cudaHostAlloc(&words, 100'000, cudaHostAllocMapped));
  words[0] = 0;
  wait_for<<<1, 1, 0, s.stream>>>(words, words + 20'000, words + 1);
  CHECK(cudaStreamQuery(s.stream) == cudaErrorNotReady);
  wait_for_another_context();
  for (int i = 10'000; i < 25'000; i++) words[i] = i;
  words[0] = 1;
  CUDA(cudaStreamSynchronize(s.stream));
  CHECK(words[1] == 20'000);
  CUDA(cudaFreeHost(words));
}

void allocate_again(int i) {
  unsigned *again;
  CUDA(cudaMallocManaged(&again, 3000));
  again[i] = i;
  launch_grow(again, 750, i);
  CUDA(cudaDeviceSynchronize());
  CHECK(again[i] == 4u * i);
  CUDA(cudaFree(again));
}

void attributes(State &s) {
  cudaPointerAttributes a{};
  CUDA(cudaPointerGetAttributes(&a, s.managed + 5));
  CHECK(a.type == cudaMemoryTypeManaged && a.devicePointer == s.managed + 5);
  CUDA(cudaPointerGetAttributes(&a, s.mapped));
  CHECK(a.type == cudaMemoryTypeHost && a.devicePointer == s.mapped_there);
  int device = 0;
  CUDA(cudaGetDevice(&device));
  CUDA(cudaMemPrefetchAsync(s.managed, 4096, {cudaMemLocationTypeDevice, device}, 0, nullptr));
  CHECK(cudaMemAdvise(s.managed, 4096, cudaMemAdviseSetReadMostly, {}) == cudaSuccess);
  for (int i = 0; i < 100; i++) allocate_again(i);
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 4;
  State s;
  for (int r = 0; r < steps; r++) {
    both_sides(s, r);
    without_a_wait(s);
    copies(s);
    files(s);
    in_a_host_function(s);
    launch_grow(s.managed, kWords, 8);  // across the move without a wait
    grow_on_host(s.all, 8);
    wait_until_wanted(r + 1);
    CUDA(cudaDeviceSynchronize());
    s.check();
  }
  while_a_kernel_runs(s);
  attributes(s);
  CUDA(cudaHostUnregister(s.registered));
  CUDA(cudaFreeHost(s.mapped));
  CUDA(cudaFree(s.managed));
  CUDA(cudaDeviceReset());
  allocate_again(5);  // in a new context
  std::puts("PASSED");
}
