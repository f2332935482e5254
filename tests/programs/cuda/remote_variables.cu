// SPDX-License-Identifier: Apache-2.0
//
// Variables of all kinds, whose addresses other variables and device memory hold, in a program that
// a test moves between devices. It checks that each has its initial value, and keeps its address.
//
//   remote_variables [STEPS [gap]]   as remote_moves.cu
//
// With -DFUNCTIONS a variable holds the address of a function; with -DPOINTERS a kernel takes it.
#include "wanted_steps.h"

struct Record {
  char letter;
  double weight;
  const unsigned *link;
  short numbers[3];
};

__device__ unsigned table[4] = {3, 1, 4, 1};
static __device__ unsigned *cursor = &table[1];
__device__ Record record = {'r', -2.5, &table[2], {-1, 0, 1}};
__device__ unsigned large[1 << 20];  // more than a block of the arena
__constant__ Record fixed = {'f', 0.125, table, {7, 8, 9}};
__constant__ double halves[3] = {0.5, 1.5, 2.5};
__device__ const float kRatio[2][2] = {{0.25f, 0.5f}, {0.75f, 1.f}};
template <class T>
__device__ T counted = 40;

struct Seen {
  const void *addresses[6];
  double sum;
  unsigned long long count;
};

#if defined FUNCTIONS || defined POINTERS
__noinline__ __device__ double twice(double x) { return 2 * x; }
#endif
#ifdef FUNCTIONS
__device__ double (*function)(double) = twice;
#endif

// Calls that are not inlined: their access goes through the same addresses.
__noinline__ __device__ double sum_of(int i) {
  return halves[i % 3] + fixed.numbers[i % 3] + fixed.weight + kRatio[i / 2 % 2][i % 2];
}

__global__ void look(Seen *to, int round) {
  atomicAdd(cursor, round);
  cursor = &table[(round + 2) % 4];
  large[(1 << 20) - 1 - round] = round;
  counted<int>++;
  record.numbers[round % 3] += 5;
  double sum = record.weight + *record.link + record.letter + fixed.link[0] + fixed.letter;
  for (int i = 0; i < 4; ++i) sum += sum_of(i) + table[i];
  for (int i = 0; i < 3; ++i) sum += record.numbers[i];
  for (int i = 0; i <= round; ++i) sum += large[(1 << 20) - 1 - i];
  double *weight = round % 2 ? &record.weight : nullptr;
  if (weight) *weight += 1;
#ifdef FUNCTIONS
  sum += function(0);
#endif
#ifdef POINTERS
  double (*volatile pointer)(double) = twice;
  sum += pointer(0);
#endif
  *to = {{table, &cursor, &record, large, &counted<int>, &fixed},
         sum + counted<int>,
         static_cast<unsigned long long>(reinterpret_cast<size_t>(cursor))};
  if (round == 0) printf("the letter is %c\n", record.letter);
}

// The same steps on the host.
struct Host {
  unsigned table[4] = {3, 1, 4, 1};
  unsigned at = 1;
  double weight = -2.5;
  int numbers[3] = {-1, 0, 1}, count = 40;
  double step(int round) {
    static const double kHalves[3] = {0.5, 1.5, 2.5};
    static const float kRatios[4] = {0.25f, 0.5f, 0.75f, 1.f};
    table[at] += round;
    at = (round + 2) % 4;
    count++;
    numbers[round % 3] += 5;
    double sum = weight + table[2] + 'r' + table[0] + 'f';
    for (int i = 0; i < 4; ++i)
      sum += kHalves[i % 3] + (7 + i % 3) + 0.125 + kRatios[i] + table[i];
    for (int n : numbers) sum += n;
    for (int i = 0; i <= round; ++i) sum += i;
    if (round % 2) weight += 1;
    return sum + count;
  }
};

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 4;
  cudaLibrary_t library = argc > 2 ? load_library() : nullptr;
  Host host;
  Seen *to, seen, first{};
  CUDA(cudaMalloc(&to, sizeof *to));
  if (library) CUDA(cudaLibraryUnload(library));
  for (int r = 0; r < steps; ++r) {
    look<<<1, 1>>>(to, r);
    CUDA(cudaMemcpy(&seen, to, sizeof seen, cudaMemcpyDefault));
    if (r == 0) first = seen;
    CHECK(seen.sum == host.step(r));
    CHECK(std::equal(std::begin(seen.addresses), std::end(seen.addresses), first.addresses));
    CHECK(seen.count == reinterpret_cast<size_t>(static_cast<const unsigned *>(first.addresses[0]) + host.at));
    wait_until_wanted(r + 1);
  }
  unsigned last[4];
  CUDA(cudaMemcpyFromSymbol(last, table, sizeof last));
  CHECK(std::equal(last, last + 4, host.table));
  void *address = nullptr;
  size_t bytes = 0;
  CUDA(cudaGetSymbolAddress(&address, large));
  CUDA(cudaGetSymbolSize(&bytes, large));
  CHECK(address == first.addresses[3] && bytes == sizeof large);
  double halves_now[3] = {1, 2, 3};
  CUDA(cudaMemcpyToSymbol(halves, halves_now, sizeof halves_now));
  look<<<1, 1>>>(to, steps);
  CUDA(cudaMemcpy(&seen, to, sizeof seen, cudaMemcpyDefault));
  CHECK(seen.sum == host.step(steps) + 2);  // 1 + 2 + 3 + 1 instead of 0.5 + 1.5 + 2.5 + 0.5
  CUDA(cudaDeviceReset());  // all have their initial values again
  CUDA(cudaMalloc(&to, sizeof *to));
  look<<<1, 1>>>(to, 0);
  CUDA(cudaMemcpy(&seen, to, sizeof seen, cudaMemcpyDefault));
  CHECK(seen.sum == Host().step(0));
  return passed();
}
