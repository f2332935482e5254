// SPDX-License-Identifier: Apache-2.0
//
// Arrays, and texture and surface objects on arrays, linear and pitched memory, in a program that a
// test moves between devices. Kernels get the objects as parameters, from constant memory, from a
// structure in device memory, from a variable that only a kernel has written, and in a graph. It
// checks each result, and the whole contents of its arrays at the end.
//
//   remote_textures [STEPS]   prints "step N" after each step
#include <cuda.h>

#include <algorithm>

#include "wanted_steps.h"

using Texture = cudaTextureObject_t;
using Surface = cudaSurfaceObject_t;

constexpr int kWide = 40, kHigh = 24, kDeep = 6, kLayers = 5;
// More than one message or one piece of an image carries, and rows that no piece ends with.
constexpr int kLargeWide = 331, kLargeHigh = 207, kLargeDeep = 71;

struct Objects {
  Texture line, picture, volume, layers, lines, linear, pitched, large;
  Surface surface, deep;
};
struct Nested {
  int before;
  Objects *there;
};

__constant__ Objects in_constants;
__device__ Texture kept[2];  // by a kernel

__global__ void keep(Texture a, Texture b) {
  kept[0] = a;
  kept[1] = b;
}

// A function that is not inlined: the object is its parameter.
__noinline__ __device__ float picture_at(Texture t, float x, float y) {
  uchar4 c = make_uchar4(0, 0, 0, 0);
  float4 f = tex2D<float4>(t, x, y);
  c.x = (unsigned char)(f.x * 255 + 0.5f), c.y = (unsigned char)(f.y * 255 + 0.5f);
  return c.x + 256 * c.y;
}

__global__ void look(Objects o, const Nested *nested, float *out, int round) {
  int i = threadIdx.x;
  const Objects &c = in_constants;
  const Objects &n = *nested->there;
  float sum = 0;
  sum += tex1D<float>(o.line, i + 0.5f) + tex1D<float>(c.line, i + 1.0f);  // the second one between two
  sum += picture_at(n.picture, i + 0.5f, (i + round) % kHigh + 0.5f);
  sum += tex3D<int>(c.volume, i % kWide + 0.5f, i % kHigh + 0.5f, (i + round) % kDeep + 0.5f);
  sum += tex2DLayered<float>(n.layers, i % kWide + 0.5f, i % kHigh + 0.5f, (i + round) % kLayers);
  sum += tex1DLayered<unsigned short>(o.lines, i + 0.5f, (i + round) % kLayers);
  if (i % 3 == 0) sum += tex1Dfetch<int>(n.linear, i + round);
  if (i % 3 != 0) sum += tex2D<float>(c.pitched, i + 0.5f, round % kHigh + 0.5f);
  sum += tex1Dfetch<int>(kept[0], i) + tex2D<float>(kept[1], i + 0.5f, 1.5f);
  // One instruction with two objects.
  sum += tex1Dfetch<int>(i & 1 ? o.linear : kept[0], 2 * i);
  sum += tex3D<unsigned>(o.large, 8 * i + 3.5f, 5 * i + 2.5f, (i + round) % kLargeDeep + 0.5f) % 1000;
  out[i] = sum;
}

__global__ void one(Texture picture, float *out) { *out = picture_at(picture, 5.5f, 0.5f); }

__global__ void paint(Surface flat, const Objects *o, int round) {
  int x = threadIdx.x, y = blockIdx.x;
  flat = round % 2 ? in_constants.surface : flat;
  float v = surf2Dread<float>(flat, x * 4, y);
  surf2Dwrite(v * 2 + round, flat, x * 4, y);
  if (y >= kDeep) return;
  int d;
  surf3Dread(&d, o->deep, x * 4, y, y);
  surf3Dwrite(d + round + 1, o->deep, x * 4, y, y);
}

cudaArray_t array_of(cudaChannelFormatDesc f, int w, int h, int d, unsigned flags, const void *data, int bytes) {
  cudaArray_t a;
  CUDA(cudaMalloc3DArray(&a, &f, make_cudaExtent(w, h, d), flags));
  cudaMemcpy3DParms p{};
  p.srcPtr = make_cudaPitchedPtr(const_cast<void *>(data), w * bytes, w, std::max(h, 1));
  p.dstArray = a;
  p.extent = make_cudaExtent(w, std::max(h, 1), std::max(d, 1));
  p.kind = cudaMemcpyHostToDevice;
  CUDA(cudaMemcpy3D(&p));
  return a;
}

template <class T>
std::vector<T> bytes_in(cudaArray_t a, int w, int h, int d) {
  std::vector<T> all(size_t(w) * h * d);
  cudaMemcpy3DParms p{};
  p.srcArray = a;
  p.dstPtr = make_cudaPitchedPtr(all.data(), w * sizeof(T), w, h);
  p.extent = make_cudaExtent(w, h, d);
  p.kind = cudaMemcpyDeviceToHost;
  CUDA(cudaMemcpy3D(&p));
  return all;
}

cudaResourceDesc on(cudaArray_t a) {
  cudaResourceDesc r{};
  r.resType = cudaResourceTypeArray;
  r.res.array.array = a;
  return r;
}

Texture texture(const cudaResourceDesc &r, bool linear = false, bool normal = false) {
  cudaTextureDesc d{};
  d.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
  d.readMode = normal ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
  for (cudaTextureAddressMode &m : d.addressMode) m = cudaAddressModeClamp;
  Texture t;
  CUDA(cudaCreateTextureObject(&t, &r, &d, nullptr));
  return t;
}

Surface surface(cudaArray_t a) {
  cudaResourceDesc r = on(a);
  Surface s;
  CUDA(cudaCreateSurfaceObject(&s, &r));
  return s;
}

// The same on the host.
struct Host {
  std::vector<float> line, flat, layers, pitched;
  std::vector<uchar4> picture;
  std::vector<int> volume, linear, deep;
  std::vector<unsigned short> lines;
  std::vector<unsigned> large;
  Host() {
    for (int i = 0; i < kWide; i++) line.push_back(i * i);
    for (int i = 0; i < kWide * kHigh; i++) {
      flat.push_back(i % 7);
      pitched.push_back(i % 101);
      picture.push_back(make_uchar4(i % 251, i % 3, 7, i % 5));
    }
    for (int i = 0; i < kWide * kHigh * kDeep; i++) volume.push_back(i % 1009), deep.push_back(-i);
    for (int i = 0; i < kWide * kHigh * kLayers; i++) layers.push_back(i % 499);
    for (int i = 0; i < kWide * kLayers; i++) lines.push_back(i * 3);
    for (int i = 0; i < 3 * kWide; i++) linear.push_back(1000 - i);
    for (size_t i = 0; i < size_t(kLargeWide) * kLargeHigh * kLargeDeep; i++) large.push_back(i * 2654435761u);
  }
  float at(int i, int round) const {
    float sum = line[i] + (i + 1 < kWide ? (line[i] + line[i + 1]) / 2 : line[i]);
    int y = (i + round) % kHigh;
    sum += picture[y * kWide + i].x + 256 * picture[y * kWide + i].y;
    sum += volume[((i + round) % kDeep * kHigh + i % kHigh) * kWide + i];
    sum += layers[((i + round) % kLayers * kHigh + i % kHigh) * kWide + i];
    sum += lines[(i + round) % kLayers * kWide + i];
    sum += i % 3 == 0 ? linear[i + round] : pitched[round % kHigh * kWide + i];
    sum += linear[i] + flat[kWide + i];
    sum += linear[2 * i];
    size_t z = (i + round) % kLargeDeep;
    sum += large[(z * kLargeHigh + 5 * i + 2) * kLargeWide + 8 * i + 3] % 1000;
    return sum;
  }
  void paint(int round) {
    for (float &v : flat) v = v * 2 + round;
    for (int z = 0; z < kDeep; z++)
      for (int x = 0; x < kWide; x++) deep[(z * kHigh + z) * kWide + x] += round + 1;
  }
};

// What the program has asked for.
void check_descriptions(const Objects &o, cudaArray_t picture, cudaArray_t deep) {
  CUDA_RESOURCE_DESC r{};
  CUDA_TEXTURE_DESC d{};
  CHECK(cuTexObjectGetResourceDesc(&r, o.picture) == CUDA_SUCCESS);
  CHECK(r.resType == CU_RESOURCE_TYPE_ARRAY && r.res.array.hArray == reinterpret_cast<CUarray>(picture));
  CHECK(cuTexObjectGetTextureDesc(&d, o.picture) == CUDA_SUCCESS);
  CHECK(d.addressMode[1] == CU_TR_ADDRESS_MODE_CLAMP && d.flags == 0 && d.filterMode == CU_TR_FILTER_MODE_POINT);
  CHECK(cuSurfObjectGetResourceDesc(&r, o.deep) == CUDA_SUCCESS);
  CHECK(r.resType == CU_RESOURCE_TYPE_ARRAY && r.res.array.hArray == reinterpret_cast<CUarray>(deep));
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 4;
  Host host;
  cudaChannelFormatDesc f = cudaCreateChannelDesc<float>(), n = cudaCreateChannelDesc<int>();
  cudaArray_t line = array_of(f, kWide, 0, 0, 0, host.line.data(), 4);
  cudaArray_t flat = array_of(f, kWide, kHigh, 0, cudaArraySurfaceLoadStore, host.flat.data(), 4);
  cudaArray_t deep = array_of(n, kWide, kHigh, kDeep, cudaArraySurfaceLoadStore, host.deep.data(), 4);
  cudaArray_t picture = array_of(cudaCreateChannelDesc<uchar4>(), kWide, kHigh, 0, 0, host.picture.data(), 4);
  cudaArray_t volume = array_of(n, kWide, kHigh, kDeep, 0, host.volume.data(), 4);
  cudaArray_t layers = array_of(f, kWide, kHigh, kLayers, cudaArrayLayered, host.layers.data(), 4);
  cudaArray_t lines =
      array_of(cudaCreateChannelDesc<unsigned short>(), kWide, 0, kLayers, cudaArrayLayered, host.lines.data(), 2);
  cudaArray_t large = array_of(cudaCreateChannelDesc<unsigned>(), kLargeWide, kLargeHigh, kLargeDeep, 0,
                               host.large.data(), 4);
  int *numbers;
  CUDA(cudaMalloc(&numbers, host.linear.size() * 4));
  CUDA(cudaMemcpy(numbers, host.linear.data(), host.linear.size() * 4, cudaMemcpyHostToDevice));
  cudaResourceDesc linear{}, pitched{};
  linear.resType = cudaResourceTypeLinear;
  linear.res.linear = {numbers, n, host.linear.size() * 4};
  void *rows;
  size_t pitch;
  CUDA(cudaMallocPitch(&rows, &pitch, kWide * 4, kHigh));
  CUDA(cudaMemcpy2D(rows, pitch, host.pitched.data(), kWide * 4, kWide * 4, kHigh, cudaMemcpyHostToDevice));
  pitched.resType = cudaResourceTypePitch2D;
  pitched.res.pitch2D = {rows, f, kWide, kHigh, pitch};

  Objects o{texture(on(line), true), texture(on(picture), false, true), texture(on(volume)), texture(on(layers)),
            texture(on(lines)), texture(linear), texture(pitched), texture(on(large)), surface(flat), surface(deep)};
  Objects *there;
  Nested nested{7, nullptr}, *to_nested;
  float *out;
  CUDA(cudaMemcpyToSymbol(in_constants, &o, sizeof o));
  CUDA(cudaMalloc(&there, sizeof o));
  CUDA(cudaMemcpy(there, &o, sizeof o, cudaMemcpyHostToDevice));
  nested.there = there;
  CUDA(cudaMalloc(&to_nested, sizeof nested));
  CUDA(cudaMemcpy(to_nested, &nested, sizeof nested, cudaMemcpyHostToDevice));
  CUDA(cudaMalloc(&out, kWide * sizeof(float)));
  keep<<<1, 1>>>(o.linear, texture(on(flat)));

  // What they show ends before they do: nothing may use them, and they must not be in the way.
  cudaArray_t short_lived = array_of(f, kWide, 0, 0, 0, host.line.data(), 4);
  cudaResourceDesc freed = linear;
  freed.res.linear.sizeInBytes = 8 << 20;
  CUDA(cudaMalloc(&freed.res.linear.devPtr, freed.res.linear.sizeInBytes));
  Texture useless[] = {texture(on(short_lived)), texture(freed)};
  CUDA(cudaFreeArray(short_lived));
  CUDA(cudaFree(freed.res.linear.devPtr));

  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t again;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  look<<<1, kWide, 0, stream>>>(o, to_nested, out, 1);
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphInstantiate(&again, graph, 0));

  float found[kWide];
  auto check = [&](int round) {
    CUDA(cudaMemcpy(found, out, sizeof found, cudaMemcpyDeviceToHost));
    for (int i = 0; i < kWide; i++) CHECK(found[i] == host.at(i, round));
  };
  Texture last = 0;
  for (int r = 0; r < steps; ++r) {
    look<<<1, kWide>>>(o, to_nested, out, r);
    check(r);
    CUDA(cudaGraphLaunch(again, stream));
    CUDA(cudaStreamSynchronize(stream));
    check(1);
    paint<<<kHigh, kWide>>>(o.surface, there, r % 3);
    host.paint(r % 3);
    // An object of each step, beside those that have come with the program.
    Texture now = texture(linear);
    CHECK(now != o.linear && now != o.line && now != last);
    if (last) CUDA(cudaDestroyTextureObject(last));
    last = now;
    keep<<<1, 1>>>(now, texture(on(flat)));
    CUDA(cudaDeviceSynchronize());
    wait_until_wanted(r + 1);
    check_descriptions(o, picture, deep);
  }
  CHECK(bytes_in<float>(flat, kWide, kHigh, 1) == host.flat);
  CHECK(bytes_in<int>(deep, kWide, kHigh, kDeep) == host.deep);
  CHECK(bytes_in<float>(layers, kWide, kHigh, kLayers) == host.layers);
  CHECK(bytes_in<unsigned short>(lines, kWide, 1, kLayers) == host.lines);
  CHECK(bytes_in<unsigned>(large, kLargeWide, kLargeHigh, kLargeDeep) == host.large);
  for (Texture t : useless) CUDA(cudaDestroyTextureObject(t));
  CUDA(cudaDestroySurfaceObject(o.deep));
  CHECK(cudaDestroySurfaceObject(o.deep) != cudaSuccess);
  (void)cudaGetLastError();
  CUDA(cudaFreeArray(deep));
  // With the context its objects end. Those of the next one may get the same handles.
  CUDA(cudaDeviceReset());
  cudaArray_t new_picture = array_of(cudaCreateChannelDesc<uchar4>(), kWide, kHigh, 0, 0, host.picture.data(), 4);
  CUDA(cudaMalloc(&out, sizeof found));
  one<<<1, 1>>>(texture(on(new_picture), false, true), out);
  CUDA(cudaMemcpy(found, out, sizeof *found, cudaMemcpyDeviceToHost));
  CHECK(found[0] == host.picture[5].x + 256 * host.picture[5].y);
  return passed();
}
