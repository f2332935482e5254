// SPDX-License-Identifier: Apache-2.0
//
// Arrays: copies of rows, boxes and large volumes between them and all kinds of memory, attributes
// of pools and streams, a module from a file. The program has arrays in its first step, a texture in
// its second one, and neither in its third one.
//
//   remote_arrays [STEPS]   prints "step N" after each step
#include <cuda.h>

#include <numeric>
#include <vector>

#include "wanted_steps.h"

#define OK(call) CHECK((call) == CUDA_SUCCESS)

CUarray make_array(size_t width, size_t height, size_t depth) {
  CUDA_ARRAY3D_DESCRIPTOR d{};
  d.Width = width;
  d.Height = height;
  d.Depth = depth;
  d.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  d.NumChannels = 1;
  CUarray a;
  OK(cuArray3DCreate(&a, &d));
  CUDA_ARRAY3D_DESCRIPTOR found{};
  OK(cuArray3DGetDescriptor(&found, a));
  CHECK(found.Width == width && found.Height == height && found.Depth == depth);
  return a;
}

std::vector<unsigned> numbers(size_t n, unsigned first) {
  std::vector<unsigned> v(n);
  std::iota(v.begin(), v.end(), first);
  return v;
}

// Through two arrays and device memory, and back.
void rows(CUarray a, CUarray b) {
  std::vector<unsigned> in = numbers(1000, 7), out(1000);
  CUdeviceptr p;
  CUstream s;
  OK(cuMemAlloc(&p, 4000));
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemcpyHtoA(a, 0, in.data(), 4000));
  OK(cuMemcpyAtoA(b, 400, a, 0, 3600));
  OK(cuMemcpyAtoD(p, b, 400, 3600));
  OK(cuMemcpyDtoA(a, 0, p, 3600));
  OK(cuMemcpyAtoH(out.data(), a, 0, 3600));
  for (int i = 0; i < 900; i++) CHECK(out[i] == in[i]);
  OK(cuMemcpyHtoAAsync(a, 40, in.data(), 400, s));
  OK(cuMemcpyAtoHAsync(out.data(), a, 40, 400, s));
  OK(cuStreamSynchronize(s));
  for (int i = 0; i < 100; i++) CHECK(out[i] == in[i]);
  CHECK(cuMemcpyAtoH(out.data(), a, 3900, 400) != CUDA_SUCCESS);  // behind its end
  CUDA_ARRAY_DESCRIPTOR d{};
  OK(cuArrayGetDescriptor(&d, a));
  CHECK(d.Width == 1000 && d.Format == CU_AD_FORMAT_UNSIGNED_INT32 && d.NumChannels == 1);
  CHECK(cuArrayGetDescriptor(&d, reinterpret_cast<CUarray>(&d)) != CUDA_SUCCESS);
  OK(cuStreamDestroy(s));
  OK(cuMemFree(p));
}

// More bytes than one message carries, and a part of them in managed memory.
void volumes() {
  constexpr size_t kWide = 500, kHigh = 300, kDeep = 70;
  CUarray a = make_array(kWide, kHigh, kDeep);
  std::vector<unsigned> in = numbers(kWide * kHigh * kDeep, 1), out(in.size());
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = in.data();
  c.srcPitch = c.WidthInBytes = kWide * 4;
  c.srcHeight = c.Height = kHigh;
  c.Depth = kDeep;
  c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  c.dstArray = a;
  OK(cuMemcpy3D(&c));
  CUDA_MEMCPY3D back{};
  back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  back.srcArray = a;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = out.data();
  back.dstPitch = back.WidthInBytes = kWide * 4;
  back.dstHeight = back.Height = kHigh;
  back.Depth = kDeep;
  OK(cuMemcpy3D(&back));
  CHECK(in == out);
  unsigned *managed;
  CUDA(cudaMallocManaged(&managed, 10 * 20 * 4));
  back.srcXInBytes = 8, back.srcY = 3, back.srcZ = 69;
  back.dstHost = managed;
  back.dstPitch = back.WidthInBytes = 40;
  back.dstHeight = back.Height = 20;
  back.Depth = 1;
  OK(cuMemcpy3D(&back));
  CHECK(managed[21] == in[(69 * kHigh + 5) * kWide + 3]);
  CUDA(cudaFree(managed));
  OK(cuArrayDestroy(a));
  CHECK(cuMemcpy3D(&c) != CUDA_SUCCESS);
}

void pools_and_streams() {
  cudaMemPool_t pool;
  uint64_t threshold = 1 << 20, got = 0;
  CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &got));
  CHECK(got == threshold);
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, {0}};
  cudaMemPool_t own;
  CUDA(cudaMemPoolCreate(&own, &properties));
  void *p;
  CUDA(cudaMallocFromPoolAsync(&p, 5000, own, nullptr));
  CUDA(cudaMemsetAsync(p, 1, 5000, nullptr));
  CUDA(cudaFreeAsync(p, nullptr));
  CUDA(cudaMemPoolDestroy(own));
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  cudaStreamAttrValue v{};
  v.syncPolicy = cudaSyncPolicyYield;
  CUDA(cudaStreamSetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &v));
  v = {};
  CUDA(cudaStreamGetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &v));
  CHECK(v.syncPolicy == cudaSyncPolicyYield);
  CUDA(cudaStreamDestroy(s));
}

void module_from_a_file() {
  std::FILE *f = std::fopen("module.ptx", "w");
  std::fputs(kLibrary, f);
  std::fclose(f);
  CUmodule m;
  CUdeviceptr p;
  size_t n;
  OK(cuModuleLoad(&m, "module.ptx"));
  OK(cuModuleGetGlobal(&p, &n, m, "gap"));
  CHECK(n == 1000);
  OK(cuModuleUnload(m));
  CHECK(cuModuleLoad(&m, "nothing.ptx") == CUDA_ERROR_FILE_NOT_FOUND);
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 3;
  unsigned *linear;
  CUDA(cudaMalloc(&linear, 4096));
  CUarray a = make_array(1000, 0, 0), b = make_array(1000, 0, 0);
  rows(a, b);
  volumes();
  wait_until_wanted(1);
  OK(cuArrayDestroy(a));
  OK(cuArrayDestroy(b));
  cudaResourceDesc r{};
  r.resType = cudaResourceTypeLinear;
  r.res.linear = {linear, cudaCreateChannelDesc<unsigned>(), 4096};
  cudaTextureDesc d{};
  cudaTextureObject_t texture;
  CUDA(cudaCreateTextureObject(&texture, &r, &d, nullptr));
  wait_until_wanted(2);
  CUDA(cudaDestroyTextureObject(texture));
  CHECK(cudaDestroyTextureObject(texture) != cudaSuccess);
  (void)cudaGetLastError();
  for (int i = 3; i <= steps; i++) wait_until_wanted(i);
  pools_and_streams();
  module_from_a_file();
  std::puts("PASSED");
}
