// SPDX-License-Identifier: Apache-2.0
//
// Mipmapped arrays and cubemaps: levels, textures of them with every way to choose a level, resource
// views, surfaces on levels. texture_reference.h computes on the host what a fetch returns. All textures
// are made first and used in two rounds, between which a kernel changes a level through a surface. Prints
// "case N" whenever it has checked one of them.
#include <cuda.h>

#include <functional>
#include <memory>
#include <random>

#include "check.h"
#include "texture_reference.h"

#define DRIVER(call) CHECK((call) == CUDA_SUCCESS)

enum Form { Base, Level, Derivatives };

struct Query {
  float p[3], detail, dx[3], dy[3];
  int layer;
  Form form;
};

template <int kAxes, bool kLayered>
__device__ float fetch(cudaTextureObject_t t, const Query &q) {
  const float x = q.p[0], y = q.p[1], z = q.p[2], *a = q.dx, *b = q.dy;
  if constexpr (kAxes == 1 && !kLayered)
    return q.form == Base ? tex1D<float>(t, x) : q.form == Level ? tex1DLod<float>(t, x, q.detail)
                                                                 : tex1DGrad<float>(t, x, a[0], b[0]);
  if constexpr (kAxes == 1 && kLayered)
    return q.form == Base    ? tex1DLayered<float>(t, x, q.layer)
           : q.form == Level ? tex1DLayeredLod<float>(t, x, q.layer, q.detail)
                             : tex1DLayeredGrad<float>(t, x, q.layer, a[0], b[0]);
  float2 a2{a[0], a[1]}, b2{b[0], b[1]};
  if constexpr (kAxes == 2 && !kLayered)
    return q.form == Base ? tex2D<float>(t, x, y) : q.form == Level ? tex2DLod<float>(t, x, y, q.detail)
                                                                    : tex2DGrad<float>(t, x, y, a2, b2);
  if constexpr (kAxes == 2 && kLayered)
    return q.form == Base    ? tex2DLayered<float>(t, x, y, q.layer)
           : q.form == Level ? tex2DLayeredLod<float>(t, x, y, q.layer, q.detail)
                             : tex2DLayeredGrad<float>(t, x, y, q.layer, a2, b2);
  float4 a3{a[0], a[1], a[2], 0}, b3{b[0], b[1], b[2], 0};
  if constexpr (kAxes == 3)
    return q.form == Base ? tex3D<float>(t, x, y, z) : q.form == Level ? tex3DLod<float>(t, x, y, z, q.detail)
                                                                       : tex3DGrad<float>(t, x, y, z, a3, b3);
}

template <int kAxes, bool kLayered>
__global__ void ask(cudaTextureObject_t t, const Query *q, int n, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = fetch<kAxes, kLayered>(t, q[i]);
}
using Ask = void (*)(cudaTextureObject_t, const Query *, int, float *);

__global__ void ask_cube(cudaTextureObject_t t, const Query *q, int n, float *out, bool layered) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float *p = q[i].p, *a = q[i].dx, *b = q[i].dy;
  float4 a3{a[0], a[1], a[2], 0}, b3{b[0], b[1], b[2], 0};
  int l = q[i].layer;
  if (layered)
    out[i] = q[i].form == Base    ? texCubemapLayered<float>(t, p[0], p[1], p[2], l)
             : q[i].form == Level ? texCubemapLayeredLod<float>(t, p[0], p[1], p[2], l, q[i].detail)
                                  : texCubemapLayeredGrad<float>(t, p[0], p[1], p[2], l, a3, b3);
  else
    out[i] = q[i].form == Base    ? texCubemap<float>(t, p[0], p[1], p[2])
             : q[i].form == Level ? texCubemapLod<float>(t, p[0], p[1], p[2], q[i].detail)
                                  : texCubemapGrad<float>(t, p[0], p[1], p[2], a3, b3);
}

__global__ void add_one(cudaSurfaceObject_t s, int w) {
  int x = threadIdx.x, y = blockIdx.x;
  if (x < w) surf2Dwrite(surf2Dread<float>(s, 4 * x, y) + 1, s, 4 * x, y);
}
__global__ void faces(cudaSurfaceObject_t s, float *out) {
  out[0] = surfCubemapLayeredread<float>(s, 4 * 3, 1, 8);
  surfCubemapLayeredwrite<float>(-5, s, 4 * 2, 0, 11);
  out[1] = surfCubemapLayeredread<float>(s, 4 * 2, 0, 11);
}
__global__ void colours(cudaTextureObject_t t, float4 *out, bool *resident) {
  out[0] = tex2DLod<float4>(t, 0.5f, 0.5f, 1, resident);
}
__global__ void integers(cudaTextureObject_t t, int *out) {
  for (int level = 0; level < 3; ++level) out[level] = tex2DLod<int>(t, 0.1f, 0.1f, level);
}
// tex.level with integer coordinates, which no function of the toolkit makes.
__global__ void element(cudaTextureObject_t t, float *out) {
  asm volatile("{ .reg .f32 a, b, c; tex.level.2d.v4.f32.s32 {%0, a, b, c}, [%1, {1, 1}], 1; }"
               : "=f"(*out)
               : "l"(t));
}

std::mt19937 numbers(7);
float uniform(float low, float high) { return std::uniform_real_distribution<float>(low, high)(numbers); }

// A mipmapped array with contents, and what they are.
struct Pyramid {
  cudaMipmappedArray_t array = nullptr;
  std::vector<Image> levels;
  int axes;
  bool layered;

  Pyramid(cudaExtent e, unsigned count, unsigned flags) {
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
    CUDA(cudaMallocMipmappedArray(&array, &f, e, count, flags));
    layered = flags & (cudaArrayLayered | cudaArrayCubemap);
    axes = e.height == 0 ? 1 : e.depth == 0 || layered ? 2 : 3;
    for (unsigned k = 0; k < count; ++k) levels.push_back(fill(k));
  }
  cudaArray_t level(unsigned k) const {
    cudaArray_t a;
    CUDA(cudaGetMipmappedArrayLevel(&a, array, k));
    return a;
  }
  Image fill(unsigned k) const {
    cudaExtent e;
    CUDA(cudaArrayGetInfo(nullptr, &e, nullptr, level(k)));
    Image m;
    m.size[0] = e.width;
    m.size[1] = std::max<int>(e.height, 1);
    m.size[2] = std::max<int>(e.depth, 1);
    for (int i = 0; i < m.size[0] * m.size[1] * m.size[2]; ++i) m.texel.push_back(numbers() % 1000);
    cudaMemcpy3DParms p{};
    p.srcPtr = make_cudaPitchedPtr(m.texel.data(), m.size[0] * 4, m.size[0], m.size[1]);
    p.dstArray = level(k);
    p.extent = make_cudaExtent(m.size[0], m.size[1], m.size[2]);
    p.kind = cudaMemcpyHostToDevice;
    CUDA(cudaMemcpy3D(&p));
    return m;
  }
};

cudaTextureObject_t texture_of(cudaMipmappedArray_t a, const cudaTextureDesc &how,
                               const cudaResourceViewDesc *view = nullptr) {
  cudaResourceDesc r{};
  r.resType = cudaResourceTypeMipmappedArray;
  r.res.mipmap.mipmap = a;
  cudaTextureObject_t t;
  CUDA(cudaCreateTextureObject(&t, &r, &how, view));
  return t;
}

cudaTextureDesc sampling(cudaTextureFilterMode filter, cudaTextureFilterMode between, cudaTextureAddressMode mode) {
  cudaTextureDesc d{};
  for (cudaTextureAddressMode &m : d.addressMode) m = mode;
  d.filterMode = filter;
  d.mipmapFilterMode = between;
  d.normalizedCoords = 1;
  d.maxMipmapLevelClamp = 20;
  d.borderColor[0] = 77;
  return d;
}

// No coordinate is so close to the edge of an element, and no level to the middle between two, that
// rounding decides.
bool is_clear(const Fetched &f, const Query &q) {
  for (const Image &m : f.levels)
    for (int a = 0; a < f.axes; ++a) {
      float x = q.p[a] * m.size[a] * 2;
      if (std::fabs(x - std::round(x)) < 1e-3) return false;
    }
  float d = (q.detail + f.how.mipmapLevelBias) * 2;
  return std::fabs(d - std::round(d)) > 1e-2;
}

Query query_of(const Fetched &f, int i) {
  Query q{};
  do {
    for (int a = 0; a < f.axes; ++a) q.p[a] = uniform(-1.5f, 2.5f);
    q.detail = std::floor(uniform(-1, 6) * 64) / 64 + 1.0f / 2560;
  } while (!is_clear(f, q));
  q.layer = i % (f.layered ? f.levels[0].size[2] + 1 : 1);
  q.form = static_cast<Form>(i % 3);
  // One derivative is as long as 2^detail elements, the other one shorter.
  int a = i / 3 % f.axes, b = i / 7 % f.axes;
  float length = std::exp2(q.detail), *first = i % 2 ? q.dx : q.dy, *second = i % 2 ? q.dy : q.dx;
  first[a] = length / f.levels[0].size[a];
  second[b] = -length / 2.5f / f.levels[0].size[b];
  return q;
}

struct Case {
  cudaTextureObject_t texture;
  Fetched expected;
};

void check_case(const Case &c) {
  const int n = 96;
  static Query *queries = nullptr;
  static float *out = nullptr;
  if (queries == nullptr) CUDA(cudaMalloc(&queries, n * sizeof(Query)));
  if (out == nullptr) CUDA(cudaMalloc(&out, n * sizeof(float)));
  const Fetched &f = c.expected;
  std::vector<Query> q;
  for (int i = 0; i < n; ++i) q.push_back(query_of(f, i));
  std::vector<float> got(n);
  CUDA(cudaMemcpy(queries, q.data(), n * sizeof(Query), cudaMemcpyHostToDevice));
  static const Ask kKernels[] = {ask<1, false>, ask<2, false>, ask<3, false>, ask<1, true>, ask<2, true>};
  kKernels[f.axes - 1 + (f.layered ? 3 : 0)]<<<3, 32>>>(c.texture, queries, n, out);
  CUDA(cudaMemcpy(got.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) {
    double want = q[i].form == Base    ? f.at(q[i].p, q[i].layer, 0)
                  : q[i].form == Level ? f.at(q[i].p, q[i].layer, q[i].detail)
                                       : f.along(q[i].p, q[i].layer, q[i].dx, q[i].dy);
    // With anisotropy, a rounding of a coordinate may change a weight by 1/256.
    double most = f.how.maxAnisotropy > 1 ? 4 : 0.01;
    if (std::fabs(got[i] - want) > most)
      std::fprintf(stderr, "axes %d layered %d form %d query %d: %f instead of %f\n", f.axes, f.layered, q[i].form, i,
                   got[i], want);
    CHECK(std::fabs(got[i] - want) <= most);
  }
  static int checked = 0;
  std::printf("case %d\n", ++checked);
  std::fflush(stdout);
}

void add_case(std::vector<Case> &cases, const Pyramid &p, const cudaTextureDesc &how) {
  Fetched f{p.levels, p.axes, p.layered, how};
  cases.push_back({texture_of(p.array, how), f});
}

std::vector<Case> cases_of(const Pyramid &p) {
  std::vector<Case> cases;
  add_case(cases, p, sampling(cudaFilterModePoint, cudaFilterModePoint, cudaAddressModeClamp));
  add_case(cases, p, sampling(cudaFilterModeLinear, cudaFilterModePoint, cudaAddressModeWrap));
  add_case(cases, p, sampling(cudaFilterModeLinear, cudaFilterModeLinear, cudaAddressModeMirror));
  cudaTextureDesc how = sampling(cudaFilterModePoint, cudaFilterModeLinear, cudaAddressModeBorder);
  how.mipmapLevelBias = 0.75f;
  how.minMipmapLevelClamp = 0.5f;
  how.maxMipmapLevelClamp = 2.25f;
  add_case(cases, p, how);
  return cases;
}

cudaResourceViewDesc view_of(const Pyramid &p, unsigned first, unsigned last) {
  cudaResourceViewDesc v{};
  cudaExtent e;
  CUDA(cudaArrayGetInfo(nullptr, &e, nullptr, p.level(0)));
  v.width = e.width;
  v.height = e.height;
  v.depth = e.depth;
  v.firstMipmapLevel = first;
  v.lastMipmapLevel = last;
  return v;
}

// Levels 1 to 2, and one of the layers.
Case case_of_view(const Pyramid &p) {
  cudaResourceViewDesc v = view_of(p, 1, 2);
  if (p.layered) v.firstLayer = v.lastLayer = 1;
  cudaTextureDesc how = sampling(cudaFilterModeLinear, cudaFilterModeLinear, cudaAddressModeClamp);
  Fetched f{{p.levels.begin() + 1, p.levels.begin() + 3}, p.axes, p.layered, how};
  for (Image &m : f.levels) {
    if (!p.layered) break;
    size_t layer = m.size[0] * m.size[1];
    m.texel = {m.texel.begin() + layer, m.texel.begin() + 2 * layer};
    m.size[2] = 1;
  }
  return {texture_of(p.array, how, &v), f};
}

// A texture of one level is that of a plain array.
Case case_of_level(const Pyramid &p, unsigned level) {
  cudaResourceDesc r{};
  r.resType = cudaResourceTypeArray;
  r.res.array.array = p.level(level);
  Case c{0, {{p.levels[level]}, p.axes, p.layered}};
  c.expected.how = sampling(cudaFilterModeLinear, cudaFilterModePoint, cudaAddressModeClamp);
  CUDA(cudaCreateTextureObject(&c.texture, &r, &c.expected.how, nullptr));
  return c;
}

// Adds 1 to a level, through a surface.
void change(Pyramid &p, unsigned level) {
  cudaResourceDesc r{};
  r.resType = cudaResourceTypeArray;
  r.res.array.array = p.level(level);
  cudaSurfaceObject_t s;
  CUDA(cudaCreateSurfaceObject(&s, &r));
  Image &m = p.levels[level];
  add_one<<<m.size[1], 32>>>(s, m.size[0]);
  for (float &v : m.texel) v += 1;
  std::vector<float> back(m.texel.size());
  CUDA(cudaMemcpy2DFromArray(back.data(), m.size[0] * 4, r.res.array.array, 0, 0, m.size[0] * 4, m.size[1],
                             cudaMemcpyDeviceToHost));
  CHECK(back == m.texel);
  CUDA(cudaDestroySurfaceObject(s));
}

#include "mipmap_cases.h"

int main() {
  CUDA(cudaSetDevice(0));
  Pyramid line({100, 0, 0}, 7, 0), plane({29, 20, 0}, 4, cudaArraySurfaceLoadStore), volume({9, 12, 7}, 4, 0);
  Pyramid lines({40, 0, 3}, 4, cudaArrayLayered), planes({16, 10, 3}, 4, cudaArrayLayered);
  const unsigned kCubes = cudaArrayCubemap | cudaArrayLayered | cudaArraySurfaceLoadStore;
  Pyramid cube({8, 8, 6}, 4, cudaArrayCubemap), cubes({8, 8, 12}, 3, kCubes);
  std::vector<Case> cases;
  for (const Pyramid *p : {&line, &plane, &volume, &lines, &planes}) {
    for (const Case &c : cases_of(*p)) cases.push_back(c);
    cases.push_back(case_of_view(*p));
    cases.push_back(case_of_level(*p, 1));
  }
  cudaTextureDesc how = sampling(cudaFilterModeLinear, cudaFilterModeLinear, cudaAddressModeClamp);
  how.maxAnisotropy = 8;
  add_case(cases, plane, how);
  for (const Case &c : cases) check_case(c);
  check_cubes(cube, cubes);
  check_formats();
  check_descriptions(plane);
  check_errors(plane);
  change(plane, 1);
  for (Case &c : cases)
    for (Image &m : c.expected.levels)
      if (m.size[0] == plane.levels[1].size[0] && m.size[1] == plane.levels[1].size[1]) m = plane.levels[1];
  for (const Case &c : cases) check_case(c);
  check_lifetimes(plane);
  return passed();
}
