// SPDX-License-Identifier: Apache-2.0
//
// C++ in device code: recursion, virtual functions, function pointers, malloc and new, printf,
// device variables, structures by value, switches, local arrays, divergence, a lock.
#include "check.h"

__device__ int counter = 5;
__constant__ float table[4] = {1, 2, 3, 4};
__device__ const char *word = "device";
__managed__ int shared_with_host = 3;

struct Shape {
  __device__ virtual ~Shape() {}
  __device__ virtual int area() { return 1; }
};
struct Square : Shape {
  int side;
  __device__ Square(int s) : side(s) {}
  __device__ int area() override { return side * side; }
};

__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ int plus_one(int x) { return x + 1; }
__device__ int times_three(int x) { return x * 3; }
typedef int (*Function)(int);
__device__ Function functions[2] = {plus_one, times_three};

struct Big {
  int a[20];
};
__device__ __noinline__ Big changed(Big b, int i) {
  b.a[i] += 100;
  return b;
}

__global__ void language(int *out, int n, Big big) {
  int i = threadIdx.x;
  Shape *s = i & 1 ? new Square(i) : new Shape;
  out[0 * 64 + i] = s->area();
  delete s;
  out[1 * 64 + i] = fib(i % 12);
  out[2 * 64 + i] = functions[i % 2](i);
  Big c = changed(big, i % 20);
  out[3 * 64 + i] = c.a[(i + n) % 20];
  int *m = static_cast<int *>(malloc(64 * sizeof(int)));
  for (int k = 0; k < 64; ++k) m[k] = k * i;
  int sum = 0;
  for (int k = 0; k < 64; ++k) sum += m[(k * 7) % 64];
  free(m);
  out[4 * 64 + i] = sum;
  int r = 0;
  switch (i % 8) {
    case 0: r = 10; break;
    case 1: r = 21; break;
    case 2: r = 32; break;
    case 3: r = 43; break;
    case 4: r = 54; break;
    default: r = i;
  }
  out[5 * 64 + i] = r;
  int loops = 0;
  for (int k = i; k > 0; k = k % 2 ? k - 1 : k / 2) ++loops;
  out[6 * 64 + i] = loops;
  out[7 * 64 + i] = static_cast<int>(table[i % 4]) + shared_with_host;
  atomicAdd(&counter, 1);
}

__device__ int mutex, total;

// Every lane takes the same lock: lanes that spin must not prevent the holder from releasing it.
__global__ void lock() {
  bool done = false;
  while (!done) {
    if (atomicCAS(&mutex, 0, 1) == 0) {
      total = total + 1;
      __threadfence();
      atomicExch(&mutex, 0);
      done = true;
    }
  }
}

__global__ void say(int n) { printf("%s %d %5.2f %c %lld %x\n", word, n, 1.5, 'x', 1234567890123ll, 255); }

int loops_of(int i) {
  int loops = 0;
  for (int k = i; k > 0; k = k % 2 ? k - 1 : k / 2) ++loops;
  return loops;
}

int fib_of(int n) { return n < 2 ? n : fib_of(n - 1) + fib_of(n - 2); }

int main() {
  int *out;
  CUDA(cudaMallocManaged(&out, 8 * 64 * sizeof(int)));
  Big big;
  for (int i = 0; i < 20; ++i) big.a[i] = i;
  shared_with_host = 7;
  language<<<1, 64>>>(out, 3, big);
  CUDA(cudaDeviceSynchronize());
  const int cases[] = {10, 21, 32, 43, 54};
  for (int i = 0; i < 64; ++i) {
    CHECK(out[i] == (i & 1 ? i * i : 1));
    CHECK(out[64 + i] == fib_of(i % 12));
    CHECK(out[128 + i] == (i % 2 ? i * 3 : i + 1));
    CHECK(out[192 + i] == (i + 3) % 20 + ((i + 3) % 20 == i % 20 ? 100 : 0));
    CHECK(out[256 + i] == 63 * 64 / 2 * i);
    CHECK(out[320 + i] == (i % 8 < 5 ? cases[i % 8] : i));
    CHECK(out[384 + i] == loops_of(i));
    CHECK(out[448 + i] == i % 4 + 1 + 7);
  }
  int value;
  CUDA(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  CHECK(value == 5 + 64);
  value = 11;
  CUDA(cudaMemcpyToSymbol(counter, &value, sizeof value));
  float four[4] = {5, 6, 7, 8};
  CUDA(cudaMemcpyToSymbol(table, four, sizeof four));
  language<<<1, 64>>>(out, 3, big);
  CUDA(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  CHECK(value == 11 + 64);
  CHECK(out[448] == 5 + 7);
  lock<<<8, 100>>>();
  CUDA(cudaMemcpyFromSymbol(&value, total, sizeof value));
  CHECK(value == 800);
  std::fflush(stdout);
  say<<<1, 2>>>(42);
  CUDA(cudaDeviceSynchronize());
  return passed();
}
