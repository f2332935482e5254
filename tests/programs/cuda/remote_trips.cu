// SPDX-License-Identifier: Apache-2.0
//
// Calls that cost a program on a device of another node no round trip of their own: launches of many
// sizes, reads one behind the other, and a wait behind a read. The program must not notice.
//
//   remote_trips   prints what is refused
#include <unistd.h>

#include "check.h"

constexpr int kWords = 1 << 10, kGrids = 200, kSteps = 40;

__global__ void count(unsigned *counter, unsigned *places) {
  if (threadIdx.x == 0) atomicAdd(counter, 1);
  places[threadIdx.x] = gridDim.x;
}
__global__ void __cluster_dims__(2, 1, 1) pairs(unsigned *counter) {
  if (threadIdx.x == 0) atomicAdd(counter, 1);
}
__global__ void set(unsigned *place, unsigned value) { *place = value; }
__global__ void set_late(unsigned *place, unsigned value, long long ns) {
  long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < ns);
  *place = value;
}

static unsigned read(const unsigned *place) {
  unsigned value = 0;
  CUDA(cudaMemcpy(&value, place, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

static void refused(const char *what) {
  std::printf("%s: %s\n", what, cudaGetErrorName(cudaGetLastError()));
}

static void launches_of_many_sizes(unsigned *counter, unsigned *places) {
  unsigned sum = 0;
  for (unsigned n = 1; n <= kGrids; sum += n++) count<<<n, 32>>>(counter, places);
  for (unsigned n = 1; n <= kGrids / 10; sum += n * n, n++) count<<<dim3(n, n), 32>>>(counter, places);
  CHECK(read(counter) == sum);
  count<<<dim3(1, 65536), 32>>>(counter, places);
  refused("a grid of 1 x 65536 blocks");
  count<<<dim3(1, 1, 70000), 32>>>(counter, places);
  refused("a grid of 1 x 1 x 70000 blocks");
  count<<<0, 32>>>(counter, places);
  refused("a grid of no block");
  count<<<1, 2048>>>(counter, places);
  refused("a block of 2048 threads");
  CHECK(read(counter) == sum);
}

// With clusters of two blocks, each odd grid is refused at once.
static void launches_of_clusters(unsigned *counter) {
  unsigned before = read(counter), sum = 0;
  for (unsigned n = 1; n <= 20; n++) {
    pairs<<<n, 32>>>(counter);
    cudaError_t e = cudaGetLastError();
    CHECK((e == cudaSuccess) == (n % 2 == 0));
    if (n % 2 == 0) sum += n;
  }
  CHECK(read(counter) == before + sum);
}

// The same three reads in each step, and sometimes only one of them, or others.
static void reads_one_behind_the_other(unsigned *places) {
  for (unsigned step = 0; step < kSteps; step++) {
    for (unsigned i = 0; i < 3; i++) set<<<1, 1>>>(places + i, step * 10 + i);
    for (unsigned i = 0; i < 3; i++) {
      CHECK(read(places + i) == step * 10 + i);
      if (step % 7 == 6) break;
      if (step % 11 != 10 || i != 0) continue;
      set<<<1, 1>>>(places + 1, 1234);
      CHECK(read(places + 1) == 1234);
      break;
    }
  }
}

// A wait behind a copy that has waited.
static void waits_behind_reads(unsigned *places) {
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  for (unsigned step = 0; step < kSteps; step++) {
    unsigned value = 0;
    set<<<1, 1, 0, stream>>>(places, step);
    CUDA(cudaMemcpyAsync(&value, places, sizeof value, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    CHECK(value == step);
  }
  CUDA(cudaStreamDestroy(stream));
}

// What a stream that waits for no other one changes between two reads.
static void a_stream_that_works_meanwhile(unsigned *places) {
  cudaStream_t stream;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (unsigned step = 0; step < 6; step++) {
    set<<<1, 1>>>(places, step);
    set_late<<<1, 1, 0, stream>>>(places + 1, step, 100'000'000);
    CHECK(read(places) == step);
    usleep(400'000);
    CHECK(read(places + 1) == step);
  }
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaStreamDestroy(stream));
}

int main() {
  unsigned *counter, *places;
  CUDA(cudaMalloc(&counter, sizeof *counter));
  CUDA(cudaMalloc(&places, kWords * sizeof *places));
  CUDA(cudaMemset(counter, 0, sizeof *counter));
  launches_of_many_sizes(counter, places);
  launches_of_clusters(counter);
  reads_one_behind_the_other(places);
  waits_behind_reads(places);
  a_stream_that_works_meanwhile(places);
  return passed();
}
