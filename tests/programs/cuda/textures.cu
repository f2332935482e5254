// SPDX-License-Identifier: Apache-2.0
//
// Textures and surfaces: a stencil, filtering, addressing modes, 3D and layered arrays, linear
// memory.
#include "check.h"

__global__ void stencil(cudaTextureObject_t t, float *out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  out[y * w + x] = tex2D<float>(t, x - 1 + 0.5f, y + 0.5f) + tex2D<float>(t, x + 1 + 0.5f, y + 0.5f) +
                   tex2D<float>(t, x + 0.5f, y - 1 + 0.5f) + tex2D<float>(t, x + 0.5f, y + 1 + 0.5f);
}
__global__ void at(cudaTextureObject_t t, float x, float y, float *out) { *out = tex2D<float>(t, x, y); }
__global__ void bytes_at(cudaTextureObject_t t, float x, float4 *out) { *out = tex1D<float4>(t, x); }
__global__ void linear_at(cudaTextureObject_t t, int *out, int n) {
  int i = threadIdx.x;
  if (i < n) out[i] = tex1Dfetch<int>(t, n - 1 - i);
}
__global__ void volume_at(cudaTextureObject_t t, float *out) { *out = tex3D<float>(t, 1.5f, 2.5f, 1.5f); }
__global__ void layer_at(cudaTextureObject_t t, float *out) { *out = tex2DLayered<float>(t, 2.5f, 1.5f, 1); }
__global__ void surface(cudaSurfaceObject_t s, int w, int h) {
  int x = threadIdx.x, y = blockIdx.x;
  float v = surf2Dread<float>(s, x * 4, y);
  surf2Dwrite(v * 2 + 1, s, x * 4, y);
}

template <class T>
T *managed(size_t n) {
  T *p = nullptr;
  CUDA(cudaMallocManaged(&p, n * sizeof(T)));
  return p;
}

cudaTextureObject_t texture(cudaArray_t a, cudaTextureAddressMode mode, bool linear, bool normalized,
                            cudaTextureReadMode read = cudaReadModeElementType) {
  cudaResourceDesc r{};
  r.resType = cudaResourceTypeArray;
  r.res.array.array = a;
  cudaTextureDesc d{};
  for (cudaTextureAddressMode &m : d.addressMode) m = mode;
  d.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
  d.readMode = read;
  d.normalizedCoords = normalized;
  d.borderColor[0] = 99;
  cudaTextureObject_t t;
  CUDA(cudaCreateTextureObject(&t, &r, &d, nullptr));
  return t;
}

float one(cudaTextureObject_t t, float x, float y) {
  static float *out = managed<float>(1);
  at<<<1, 1>>>(t, x, y, out);
  CUDA(cudaDeviceSynchronize());
  return *out;
}

int main() {
  const int w = 50, h = 30;
  std::vector<float> host(w * h);
  for (int i = 0; i < w * h; ++i) host[i] = i * 37 % 101;
  cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
  cudaArray_t a;
  CUDA(cudaMallocArray(&a, &f, w, h, cudaArraySurfaceLoadStore));
  CUDA(cudaMemcpy2DToArray(a, 0, 0, host.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
  cudaTextureObject_t point = texture(a, cudaAddressModeClamp, false, false);
  float *out = managed<float>(w * h);
  stencil<<<dim3(4, 4), dim3(16, 8)>>>(point, out, w, h);
  CUDA(cudaDeviceSynchronize());
  auto clamped = [&](int x, int y) { return host[std::min(std::max(y, 0), h - 1) * w + std::min(std::max(x, 0), w - 1)]; };
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x)
      CHECK(out[y * w + x] == clamped(x - 1, y) + clamped(x + 1, y) + clamped(x, y - 1) + clamped(x, y + 1));

  cudaTextureObject_t smooth = texture(a, cudaAddressModeClamp, true, false);
  CHECK(one(smooth, 10.5f, 4.5f) == host[4 * w + 10]);
  CHECK(one(smooth, 11.0f, 4.5f) == (host[4 * w + 10] + host[4 * w + 11]) / 2);
  CHECK(one(smooth, 11.0f, 5.0f) == (host[4 * w + 10] + host[4 * w + 11] + host[5 * w + 10] + host[5 * w + 11]) / 4);
  cudaTextureObject_t border = texture(a, cudaAddressModeBorder, false, false);
  CHECK(one(border, -3.0f, 4.0f) == 99 && one(border, 3.0f, h + 1.0f) == 99);
  cudaTextureObject_t wrap = texture(a, cudaAddressModeWrap, false, true);
  CHECK(one(wrap, 1.0f + 3.5f / w, 4.5f / h) == host[4 * w + 3]);
  CHECK(one(wrap, -1.0f + 3.5f / w, 4.5f / h) == host[4 * w + 3]);
  cudaTextureObject_t mirror = texture(a, cudaAddressModeMirror, false, true);
  CHECK(one(mirror, -3.5f / w, 4.5f / h) == host[4 * w + 3]);

  cudaResourceDesc r{};
  r.resType = cudaResourceTypeArray;
  r.res.array.array = a;
  cudaSurfaceObject_t s;
  CUDA(cudaCreateSurfaceObject(&s, &r));
  surface<<<h, w>>>(s, w, h);
  std::vector<float> back(w * h);
  CUDA(cudaMemcpy2DFromArray(back.data(), w * 4, a, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < w * h; ++i) CHECK(back[i] == host[i] * 2 + 1);

  cudaChannelFormatDesc four = cudaCreateChannelDesc<uchar4>();
  cudaArray_t colours;
  CUDA(cudaMallocArray(&colours, &four, 8));
  std::vector<uchar4> texels(8);
  for (int i = 0; i < 8; ++i) texels[i] = {(unsigned char)(i * 30), 255, 0, 51};
  CUDA(cudaMemcpy2DToArray(colours, 0, 0, texels.data(), 32, 32, 1, cudaMemcpyHostToDevice));
  float4 *colour = managed<float4>(1);
  bytes_at<<<1, 1>>>(texture(colours, cudaAddressModeClamp, false, false, cudaReadModeNormalizedFloat), 3.5f, colour);
  CUDA(cudaDeviceSynchronize());
  CHECK(colour->x == 90 / 255.0f && colour->y == 1 && colour->z == 0 && colour->w == 0.2f);

  const int n = 20;
  int *numbers = managed<int>(n), *reversed = managed<int>(n);
  for (int i = 0; i < n; ++i) numbers[i] = i * i;
  cudaResourceDesc linear{};
  linear.resType = cudaResourceTypeLinear;
  linear.res.linear.devPtr = numbers;
  linear.res.linear.desc = cudaCreateChannelDesc<int>();
  linear.res.linear.sizeInBytes = n * sizeof(int);
  cudaTextureDesc plain{};
  plain.readMode = cudaReadModeElementType;
  cudaTextureObject_t t;
  CUDA(cudaCreateTextureObject(&t, &linear, &plain, nullptr));
  linear_at<<<1, 32>>>(t, reversed, n);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) CHECK(reversed[i] == (n - 1 - i) * (n - 1 - i));

  for (bool layered : {false, true}) {
    cudaArray_t volume;
    CUDA(cudaMalloc3DArray(&volume, &f, make_cudaExtent(4, 5, 3), layered ? cudaArrayLayered : 0));
    std::vector<float> values(60);
    for (int i = 0; i < 60; ++i) values[i] = i;
    cudaMemcpy3DParms p{};
    p.srcPtr = make_cudaPitchedPtr(values.data(), 16, 4, 5);
    p.dstArray = volume;
    p.extent = make_cudaExtent(4, 5, 3);
    p.kind = cudaMemcpyHostToDevice;
    CUDA(cudaMemcpy3D(&p));
    cudaTextureObject_t v = texture(volume, cudaAddressModeClamp, false, false);
    if (layered)
      layer_at<<<1, 1>>>(v, out);
    else
      volume_at<<<1, 1>>>(v, out);
    CUDA(cudaDeviceSynchronize());
    CHECK(out[0] == (layered ? 1 * 20 + 1 * 4 + 2 : 1 * 20 + 2 * 4 + 1));
    CUDA(cudaDestroyTextureObject(v));
    CUDA(cudaFreeArray(volume));
  }
  return passed();
}
