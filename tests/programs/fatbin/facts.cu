// SPDX-License-Identifier: Apache-2.0
//
// Has one example of everything that ckpt-fatbin reports. -DHEAP, -DPRINT and -DTEXTURES add heap
// use, printf and textures; -DPOOL adds a class with its own operator new, which does not use the
// heap.
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

struct Mixed {
  int a;
  double b;
  char c[13];
};
struct Long {
  char c[30000];
};

__device__ int counter[100];
__constant__ float coefficients[16];
__device__ __managed__ int seen[7];

__global__ void mixed(const float *in, short n, Mixed m, float *out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x] * coefficients[n] + static_cast<float>(m.b);
  atomicAdd(&counter[m.a], 1);
  seen[0] = m.c[n];
}

__global__ void nothing() {}

#if __CUDA_ARCH__ == 0 || __CUDA_ARCH__ >= 700
__global__ void large(Long l, int *out) { *out = l.c[*out]; }
#endif

__global__ void only_frees(int *p) { free(p); }

#ifdef HEAP
__global__ void allocates(int **out) { *out = new int[threadIdx.x]; }
#endif

#ifdef POOL
__device__ char pool[4096];
__device__ unsigned used;
struct Pooled {
  int value;
  __device__ static void *operator new(size_t n) {
    return pool + atomicAdd(&used, static_cast<unsigned>(n));
  }
};
__global__ void pooled(Pooled **out) { *out = new Pooled{1}; }
#endif

#ifdef PRINT
__global__ void prints() { printf("%d\n", static_cast<int>(threadIdx.x)); }
#endif

#ifdef TEXTURES
__global__ void texels(cudaTextureObject_t t, float *out) { *out = tex2D<float>(t, 0.5f, 0.5f); }
__global__ void surfels(cudaSurfaceObject_t s) { surf2Dwrite(1.0f, s, 0, 0); }
#endif

int main() {
  nothing<<<1, 1>>>();
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
