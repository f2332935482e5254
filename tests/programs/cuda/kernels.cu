// SPDX-License-Identifier: Apache-2.0
//
// Tiled matrix product, reduction with shuffles, scan, histogram with atomics, N-body simulation.
#include "check.h"

constexpr int kTile = 16;

__global__ void matmul(const float *a, const float *b, float *c, int n) {
  __shared__ float ta[kTile][kTile], tb[kTile][kTile];
  int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  float sum = 0;
  for (int t = 0; t < n; t += kTile) {
    ta[threadIdx.y][threadIdx.x] = a[y * n + t + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + x];
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += ta[threadIdx.y][k] * tb[k][threadIdx.x];
    __syncthreads();
  }
  c[y * n + x] = sum;
}

__global__ void reduce(const int *in, int *out, int n) {
  __shared__ int warps[32];
  int v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += in[i];
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    if (threadIdx.x == 0) atomicAdd(out, v);
  }
}

__global__ void scan(int *data) {
  extern __shared__ int s[];
  int t = threadIdx.x;
  s[t] = data[t];
  for (int d = 1; d < blockDim.x; d *= 2) {
    __syncthreads();
    int add = t >= d ? s[t - d] : 0;
    __syncthreads();
    s[t] += add;
  }
  data[t] = s[t];
}

__global__ void histogram(const unsigned char *in, unsigned *bins, int n) {
  __shared__ unsigned local[256];
  local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[in[i]], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

// One step of the N-body simulation. Positions are read into shared memory tile by tile.
__host__ __device__ inline float3 pull(float3 a, float4 me, float4 other) {
  float x = other.x - me.x, y = other.y - me.y, z = other.z - me.z;
  float d = x * x + y * y + z * z + 0.01f;
  float s = other.w / (d * sqrtf(d));
  return {a.x + x * s, a.y + y * s, a.z + z * s};
}
__global__ void bodies(const float4 *at, float3 *force, int n) {
  __shared__ float4 tile[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float3 a = {0, 0, 0};
  for (int t = 0; t < n; t += 64) {
    tile[threadIdx.x] = at[t + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 64; ++k) a = pull(a, at[i], tile[k]);
    __syncthreads();
  }
  force[i] = a;
}

template <class T>
T *managed(size_t n) {
  T *p = nullptr;
  CUDA(cudaMallocManaged(&p, n * sizeof(T)));
  return p;
}

int main() {
  const int n = 64;
  float *a = managed<float>(n * n), *b = managed<float>(n * n), *c = managed<float>(n * n);
  for (int i = 0; i < n * n; ++i) a[i] = i % 7, b[i] = i % 5;
  matmul<<<dim3(n / kTile, n / kTile), dim3(kTile, kTile)>>>(a, b, c, n);
  CUDA(cudaDeviceSynchronize());
  for (int y = 0; y < n; ++y)
    for (int x = 0; x < n; ++x) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum += a[y * n + k] * b[k * n + x];
      CHECK(c[y * n + x] == sum);
    }

  const int m = 123457;
  int *in = managed<int>(m), *out = managed<int>(1);
  int expected = 0;
  for (int i = 0; i < m; ++i) expected += in[i] = i % 1001 - 300;
  reduce<<<7, 192>>>(in, out, m);
  CUDA(cudaDeviceSynchronize());
  CHECK(*out == expected);

  int *data = managed<int>(512);
  for (int i = 0; i < 512; ++i) data[i] = i + 1;
  scan<<<1, 512, 512 * sizeof(int)>>>(data);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 512; ++i) CHECK(data[i] == (i + 1) * (i + 2) / 2);

  unsigned char *bytes = managed<unsigned char>(m);
  unsigned *bins = managed<unsigned>(256);
  std::vector<unsigned> want(256);
  for (int i = 0; i < m; ++i) ++want[bytes[i] = (i * 31 + i / 7) & 255];
  histogram<<<5, 256>>>(bytes, bins, m);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 256; ++i) CHECK(bins[i] == want[i]);

  const int count = 256;
  float4 *at = managed<float4>(count);
  float3 *force = managed<float3>(count);
  for (int i = 0; i < count; ++i) at[i] = {i % 7 * 1.5f, i % 11 * 0.7f, i % 13 * 0.3f, i % 3 + 1.0f};
  bodies<<<count / 64, 64>>>(at, force, count);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < count; ++i) {
    float3 a = {0, 0, 0};
    for (int k = 0; k < count; ++k) a = pull(a, at[i], at[k]);
    float scale = std::fabs(a.x) + std::fabs(a.y) + std::fabs(a.z) + 1;
    CHECK(std::fabs(a.x - force[i].x) + std::fabs(a.y - force[i].y) + std::fabs(a.z - force[i].z) < 1e-4f * scale);
  }
  return passed();
}
