// SPDX-License-Identifier: Apache-2.0
//
// Kernels on the software device against the same algorithms in C++ on one core, as process CPU
// time. Each pair runs in turns, in one process; the table shows the fastest turn of each. Compile
// with -O2, which applies to both halves.
//
//   nvcc -O2 -cudart shared bench/softcuda/against_host.cu -o against_host
//   CKPT_SOFTCUDA_CORES=1 softcuda-run ./against_host
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <vector>

#define BOTH __host__ __device__ inline

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

double timed(const std::function<void()> &f) {
  double begin = cpu_seconds();
  f();
  return cpu_seconds() - begin;
}

// Prints a row of the table. `same` compares the results of both.
void compare(const char *name, const std::function<void()> &device, const std::function<void()> &host,
             const std::function<bool()> &same) {
  double on_device = 1e9, on_host = 1e9;
  for (int turn = 0; turn < 3; ++turn) {
    on_device = std::min(on_device, timed([&] {
      device();
      cudaDeviceSynchronize();
    }));
    on_host = std::min(on_host, timed(host));
  }
  std::printf("%-16s %9.1f ms %9.1f ms %7.1f x%s\n", name, on_device * 1e3, on_host * 1e3, on_device / on_host,
              same() ? "" : "  WRONG RESULT");
}

// An array that both halves have, each in its own memory.
template <class T>
struct Array {
  T *device = nullptr;
  std::vector<T> host;
  explicit Array(size_t n) : host(n) {
    for (size_t i = 0; i < n; ++i) host[i] = T(double(i * 2654435761u % 1000) / 1000 + 0.5);
    cudaMalloc(&device, n * sizeof(T));
    cudaMemcpy(device, host.data(), n * sizeof(T), cudaMemcpyHostToDevice);
  }
  bool equals_device(double tolerance) const {
    std::vector<T> from(host.size());
    cudaMemcpy(from.data(), device, host.size() * sizeof(T), cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < host.size(); ++i)
      if (!(std::fabs(double(from[i]) - double(host[i])) <= tolerance * (std::fabs(double(host[i])) + 1)))
        return false;
    return true;
  }
};

// c = a * b in tiles, as in the programming guide ("Shared Memory").
template <int Tile>
__global__ void matmul(float *c, const float *a, const float *b, int n) {
  __shared__ float as[Tile][Tile], bs[Tile][Tile];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * Tile + y, column = blockIdx.x * Tile + x;
  float sum = 0;
  for (int t = 0; t < n; t += Tile) {
    as[y][x] = a[row * n + t + x];
    bs[y][x] = b[(t + y) * n + column];
    __syncthreads();
    for (int k = 0; k < Tile; ++k) sum += as[y][k] * bs[k][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
template <int Tile>
void matmul_host(float *c, const float *a, const float *b, int n) {
  float as[Tile][Tile], bs[Tile][Tile], sum[Tile][Tile];
  for (int i = 0; i < n; i += Tile)
    for (int j = 0; j < n; j += Tile) {
      std::fill(&sum[0][0], &sum[0][0] + Tile * Tile, 0.0f);
      for (int t = 0; t < n; t += Tile) {
        for (int y = 0; y < Tile; ++y)
          for (int x = 0; x < Tile; ++x) {
            as[y][x] = a[(i + y) * n + t + x];
            bs[y][x] = b[(t + y) * n + j + x];
          }
        for (int y = 0; y < Tile; ++y)
          for (int x = 0; x < Tile; ++x)
            for (int k = 0; k < Tile; ++k) sum[y][x] += as[y][k] * bs[k][x];
      }
      for (int y = 0; y < Tile; ++y)
        for (int x = 0; x < Tile; ++x) c[(i + y) * n + j + x] = sum[y][x];
    }
}
template <int Tile>
void bench_matmul(const char *name) {
  const int n = 256;
  Array<float> a(n * n), b(n * n), c(n * n);
  dim3 blocks(n / Tile, n / Tile), threads(Tile, Tile);
  compare(
      name, [&] { matmul<Tile><<<blocks, threads>>>(c.device, a.device, b.device, n); },
      [&] { matmul_host<Tile>(c.host.data(), a.host.data(), b.host.data(), n); },
      [&] { return c.equals_device(1e-4); });
}

__global__ void reduce(float *out, const float *in, int n) {
  __shared__ float part[256];
  float sum = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += in[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
void bench_reduction() {
  const int n = 1 << 22;
  Array<float> in(n), out(1);
  compare(
      "reduction",
      [&] {
        cudaMemset(out.device, 0, sizeof(float));
        reduce<<<64, 256>>>(out.device, in.device, n);
      },
      [&] {
        float sum = 0;
        for (float v : in.host) sum += v;
        out.host[0] = sum;
      },
      [&] { return out.equals_device(1e-2); });
}

BOTH float normal(float d) {
  float k = 1 / (1 + 0.2316419f * fabsf(d));
  float p = k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
  float v = 0.39894228040143267794f * expf(-0.5f * d * d) * p;
  return d > 0 ? 1 - v : v;
}
BOTH void black_scholes(float &call, float &put, float price, float strike, float years) {
  const float rate = 0.02f, volatility = 0.3f;
  float root = sqrtf(years);
  float d1 = (logf(price / strike) + (rate + 0.5f * volatility * volatility) * years) / (volatility * root);
  float d2 = d1 - volatility * root, discount = expf(-rate * years);
  call = price * normal(d1) - strike * discount * normal(d2);
  put = strike * discount * (1 - normal(d2)) - price * (1 - normal(d1));
}
__global__ void options(float *call, float *put, const float *price, const float *strike, const float *years, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    black_scholes(call[i], put[i], price[i], strike[i], years[i]);
}
void bench_options() {
  const int n = 1 << 18;
  Array<float> call(n), put(n), price(n), strike(n), years(n);
  compare(
      "Black-Scholes",
      [&] { options<<<64, 128>>>(call.device, put.device, price.device, strike.device, years.device, n); },
      [&] {
        for (int i = 0; i < n; ++i)
          black_scholes(call.host[i], put.host[i], price.host[i], strike.host[i], years.host[i]);
      },
      [&] { return call.equals_device(1e-3) && put.equals_device(1e-3); });
}

BOTH float4 attracted(float4 sum, float4 at, float4 by) {
  float x = by.x - at.x, y = by.y - at.y, z = by.z - at.z;
  float square = x * x + y * y + z * z + 1e-3f, inverse = 1 / sqrtf(square);
  float s = by.w * inverse * inverse * inverse;
  return {sum.x + x * s, sum.y + y * s, sum.z + z * s, 0};
}
__global__ void nbody(float4 *force, const float4 *body, int n) {
  __shared__ float4 part[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 at = body[i], sum{};
  for (int t = 0; t < n; t += 128) {
    part[threadIdx.x] = body[t + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 128; ++k) sum = attracted(sum, at, part[k]);
    __syncthreads();
  }
  force[i] = sum;
}
void bench_nbody() {
  const int n = 2048;
  Array<float> body(4 * n), force(4 * n);
  auto *bodies = reinterpret_cast<float4 *>(body.host.data()), *forces = reinterpret_cast<float4 *>(force.host.data());
  compare(
      "nbody",
      [&] { nbody<<<n / 128, 128>>>((float4 *)force.device, (const float4 *)body.device, n); },
      [&] {
        for (int i = 0; i < n; ++i) {
          float4 sum{};
          for (int k = 0; k < n; ++k) sum = attracted(sum, bodies[i], bodies[k]);
          forces[i] = sum;
        }
      },
      [&] { return force.equals_device(1e-3); });
}

__global__ void transpose(float *out, const float *in, int n) {
  __shared__ float tile[32][33];
  int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 32 + x, row = blockIdx.y * 32 + y;
  for (int k = 0; k < 32; k += 8) tile[y + k][x] = in[(row + k) * n + column];
  __syncthreads();
  for (int k = 0; k < 32; k += 8) out[(blockIdx.x * 32 + y + k) * n + blockIdx.y * 32 + x] = tile[x][y + k];
}
void bench_transpose() {
  const int n = 1024;
  Array<float> in(n * n), out(n * n);
  compare(
      "transpose", [&] { transpose<<<dim3(n / 32, n / 32), dim3(32, 8)>>>(out.device, in.device, n); },
      [&] {
        for (int i = 0; i < n; i += 32)
          for (int j = 0; j < n; j += 32)
            for (int y = 0; y < 32; ++y)
              for (int x = 0; x < 32; ++x) out.host[(j + y) * n + i + x] = in.host[(i + x) * n + j + y];
      },
      [&] { return out.equals_device(0); });
}

int main() {
  std::printf("%-16s %12s %12s %9s\n", "", "device", "C++ -O2", "ratio");
  bench_matmul<16>("matmul, tile 16");
  bench_matmul<32>("matmul, tile 32");
  bench_reduction();
  bench_options();
  bench_nbody();
  bench_transpose();
  return cudaGetLastError() != cudaSuccess;
}
