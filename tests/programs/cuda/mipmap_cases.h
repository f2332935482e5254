// SPDX-License-Identifier: Apache-2.0
//
// The parts of mipmaps.cu: cubemaps, formats, descriptions, errors, lifetimes.
#pragma once

std::vector<float> ask_about_cube(cudaTextureObject_t t, const std::vector<Query> &q,
                                  bool layered) {
  static Query *queries = nullptr;
  static float *out = nullptr;
  const int most = 128, n = q.size();
  if (queries == nullptr) CUDA(cudaMalloc(&queries, most * sizeof(Query)));
  if (out == nullptr) CUDA(cudaMalloc(&out, most * sizeof(float)));
  CHECK(n <= most);
  CUDA(cudaMemcpy(queries, q.data(), n * sizeof(Query), cudaMemcpyHostToDevice));
  ask_cube<<<4, 32>>>(t, queries, n, out, layered);
  std::vector<float> got(n);
  CUDA(cudaMemcpy(got.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
  return got;
}

// A derivative of the direction along which the place on the face moves by 2^detail elements: one
// along the longer of the two other axes.
Query cube_query(int i, int edge, int cubes) {
  Query q{};
  q.form = static_cast<Form>(i % 3);
  q.layer = i % (cubes + 1);
  int major = i % 3, other = (major + 1) % 3;
  for (float &v : q.p) v = uniform(-0.8f, 0.8f);
  q.p[major] = i / 3 % 2 ? 1.5f : -1.5f;
  q.detail = std::floor(uniform(-1, 4) * 64) / 64 + 1.0f / 2560;
  q.dx[other] = std::exp2(q.detail) / edge * 2 * 1.5f;
  return q;
}

// Six faces are the layers of a 2D texture.
void check_faces(const Pyramid &p, bool layered, const cudaTextureDesc &how) {
  Fetched f{p.levels, 2, true, how};
  int cubes = p.levels[0].size[2] / 6;
  std::vector<Query> q;
  for (int i = 0; i < 96; ++i) {
    Query one = cube_query(i, p.levels[0].size[0], cubes), flat = one;
    face_of(one.p, flat.p);
    flat.p[2] = 0;
    if (is_clear(f, flat)) q.push_back(one);
  }
  CHECK(q.size() > 60);
  std::vector<float> got = ask_about_cube(texture_of(p.array, how), q, layered);
  for (size_t i = 0; i < q.size(); ++i) {
    float place[3] = {};
    int layer = face_of(q[i].p, place) + (layered ? 6 * std::min(q[i].layer, cubes - 1) : 0);
    double want = f.at(place, layer, q[i].form == Base ? 0 : q[i].detail);
    CHECK(std::fabs(got[i] - want) <= 0.01);
  }
}

// Where the centre of an element of a cubemap is.
void centre_of(int face, int x, int y, int edge, double *at) {
  double s = (2 * x + 1.0) / edge - 1, t = (2 * y + 1.0) / edge - 1;
  const double places[6][3] = {{1, -t, -s}, {-1, -t, s}, {s, 1, t},
                               {s, -1, -t}, {s, -t, 1},  {-s, -t, -1}};
  std::copy_n(places[face], 3, at);
}

// On the edge between two faces, the result is the mean of the two elements that are nearest, and
// at a corner, of the three.
double mean_of_nearest(const Image &m, const float *p, int count) {
  std::vector<std::pair<double, float>> near;
  int edge = m.size[0];
  for (int i = 0; i < 6 * edge * edge; ++i) {
    int face = i / edge / edge, x = i % edge, y = i / edge % edge;
    double c[3], distance = 0;
    centre_of(face, x, y, edge, c);
    for (int k = 0; k < 3; ++k) distance += std::pow(c[k] - p[k], 2);
    near.push_back({distance, m.at(x, y, face)});
  }
  std::sort(near.begin(), near.end());
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += near[i].second;
  return sum / count;
}

void check_seams(const Pyramid &p) {
  cudaTextureDesc how = sampling(cudaFilterModeLinear, cudaFilterModePoint, cudaAddressModeWrap);
  how.seamlessCubemap = 1;
  const int edge = p.levels[0].size[0];
  std::vector<Query> q;
  std::vector<double> want;
  // Two coordinates are 1 or -1, and the third one is that of a row's centre; or all three are.
  for (int i = 0; i < 3 * 4 * edge; ++i) {
    Query one{};
    one.form = Base;
    int free = i % 3, signs = i / 3 % 4, row = i / 12;
    one.p[(free + 1) % 3] = signs & 1 ? 1 : -1;
    one.p[(free + 2) % 3] = signs & 2 ? 1 : -1;
    one.p[free] = (2 * row + 1.0f) / edge - 1;
    q.push_back(one);
    want.push_back(mean_of_nearest(p.levels[0], one.p, 2));
  }
  for (int i = 0; i < 8; ++i) {
    Query one{};
    for (int k = 0; k < 3; ++k) one.p[k] = i >> k & 1 ? 1 : -1;
    q.push_back(one);
    want.push_back(mean_of_nearest(p.levels[0], one.p, 3));
  }
  std::vector<float> got = ask_about_cube(texture_of(p.array, how), q, false);
  for (size_t i = 0; i < q.size(); ++i) CHECK(std::fabs(got[i] - want[i]) <= 0.01);
}

// Layer 1 is a cube; for a surface, its third face is layer 8.
void check_surfaces(const Pyramid &cubes) {
  cudaResourceDesc r{};
  r.resType = cudaResourceTypeArray;
  r.res.array.array = cubes.level(1);
  cudaSurfaceObject_t s;
  float *out, got[2];
  CUDA(cudaMalloc(&out, sizeof got));
  CUDA(cudaCreateSurfaceObject(&s, &r));
  faces<<<1, 1>>>(s, out);
  CUDA(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  CHECK(got[0] == cubes.levels[1].at(3, 1, 8) && got[1] == -5);
}

void check_cubes(const Pyramid &cube, const Pyramid &cubes) {
  for (cudaTextureFilterMode filter : {cudaFilterModePoint, cudaFilterModeLinear}) {
    cudaTextureDesc how = sampling(filter, filter, cudaAddressModeClamp);
    check_faces(cube, false, how);
    check_faces(cubes, true, how);
  }
  check_seams(cube);
  check_surfaces(cubes);
}

// Bytes as fractions, also of sRGB, and integers.
void check_formats() {
  cudaChannelFormatDesc four = cudaCreateChannelDesc<uchar4>(),
                        whole = cudaCreateChannelDesc<int>();
  cudaMipmappedArray_t a;
  cudaArray_t level;
  CUDA(cudaMallocMipmappedArray(&a, &four, {4, 4, 0}, 3, 0));
  CUDA(cudaGetMipmappedArrayLevel(&level, a, 1));
  std::vector<uchar4> texels(4, uchar4{10, 128, 255, 128});
  CUDA(cudaMemcpy2DToArray(level, 0, 0, texels.data(), 8, 8, 2, cudaMemcpyHostToDevice));
  cudaTextureDesc how = sampling(cudaFilterModePoint, cudaFilterModePoint, cudaAddressModeClamp);
  how.readMode = cudaReadModeNormalizedFloat;
  float4 *out, got;
  bool *resident, is_resident = false;
  CUDA(cudaMalloc(&out, sizeof got));
  CUDA(cudaMalloc(&resident, 1));
  for (int srgb : {0, 1}) {
    how.sRGB = srgb;
    colours<<<1, 1>>>(texture_of(a, how), out, resident);
    CUDA(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
    CUDA(cudaMemcpy(&is_resident, resident, 1, cudaMemcpyDeviceToHost));
    auto linear = [&](double v) {
      return !srgb ? v : v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
    };
    CHECK(std::fabs(got.x - linear(10 / 255.0)) < 1e-6 &&
          std::fabs(got.y - linear(128 / 255.0)) < 1e-6);
    CHECK(got.z == 1 && got.w == 128 / 255.0f && is_resident);
  }
  CUDA(cudaFreeMipmappedArray(a));
  CUDA(cudaMallocMipmappedArray(&a, &whole, {4, 4, 0}, 3, 0));
  for (int k = 0; k < 3; ++k) {
    std::vector<int> values(16, -100 - k);
    CUDA(cudaGetMipmappedArrayLevel(&level, a, k));
    CUDA(cudaMemcpy2DToArray(level, 0, 0, values.data(), 16 >> k, 16 >> k, 4 >> k,
                             cudaMemcpyHostToDevice));
  }
  how.readMode = cudaReadModeElementType;
  int *numbers_out, three[3];
  CUDA(cudaMalloc(&numbers_out, sizeof three));
  integers<<<1, 1>>>(texture_of(a, how), numbers_out);
  CUDA(cudaMemcpy(three, numbers_out, sizeof three, cudaMemcpyDeviceToHost));
  for (int k = 0; k < 3; ++k) CHECK(three[k] == -100 - k);
  // Integers as floats of the same size.
  cudaResourceViewDesc v{cudaResViewFormatFloat1, 4, 4, 0, 0, 2};
  element<<<1, 1>>>(texture_of(a, how, &v), &out->x);
  int bits = 0;
  CUDA(cudaMemcpy(&bits, out, sizeof bits, cudaMemcpyDeviceToHost));
  CHECK(bits == -101);
}

// What the program asks about its objects is what it made them of.
void check_descriptions(const Pyramid &p) {
  cudaTextureDesc how = sampling(cudaFilterModeLinear, cudaFilterModeLinear, cudaAddressModeMirror),
                  said;
  how.mipmapLevelBias = 0.25f;
  how.maxAnisotropy = 3;
  cudaResourceViewDesc v = view_of(p, 1, 2), view;
  cudaTextureObject_t t = texture_of(p.array, how, &v), plain = texture_of(p.array, how);
  cudaResourceDesc r;
  CUDA(cudaGetTextureObjectResourceDesc(&r, t));
  CHECK(r.resType == cudaResourceTypeMipmappedArray && r.res.mipmap.mipmap == p.array);
  CUDA(cudaGetTextureObjectTextureDesc(&said, t));
  CHECK(said.mipmapFilterMode == cudaFilterModeLinear && said.mipmapLevelBias == 0.25f &&
        said.maxAnisotropy == 3);
  CHECK(said.addressMode[1] == cudaAddressModeMirror && said.normalizedCoords == 1 &&
        said.sRGB == 0);
  CHECK(said.maxMipmapLevelClamp == 20 && said.borderColor[0] == 77 &&
        said.readMode == cudaReadModeElementType);
  CUDA(cudaGetTextureObjectResourceViewDesc(&view, t));
  CHECK(view.firstMipmapLevel == 1 && view.lastMipmapLevel == 2 && view.width == v.width);
  CHECK(cudaGetTextureObjectResourceViewDesc(&view, plain) == cudaErrorInvalidValue);
  CUDA(cudaDestroyTextureObject(t));
  CUDA(cudaDestroyTextureObject(plain));
  r.resType = cudaResourceTypeArray;
  r.res.array.array = p.level(0);
  cudaSurfaceObject_t s;
  cudaResourceDesc of_surface;
  CUDA(cudaCreateSurfaceObject(&s, &r));
  CUDA(cudaGetSurfaceObjectResourceDesc(&of_surface, s));
  CHECK(of_surface.resType == cudaResourceTypeArray && of_surface.res.array.array == p.level(0));
  CUDA(cudaDestroySurfaceObject(s));
  size_t most = 0;
  cudaChannelFormatDesc f = cudaCreateChannelDesc<float>(),
                        three{32, 32, 32, 0, cudaChannelFormatKindFloat};
  CUDA(cudaDeviceGetTexture1DLinearMaxWidth(&most, &f, 0));
  CHECK(most > 0 &&
        cudaDeviceGetTexture1DLinearMaxWidth(&most, &three, 0) == cudaErrorInvalidValue);
  cudaDeviceProp properties;
  CUDA(cudaGetDeviceProperties(&properties, 0));
  CHECK(properties.maxTexture1DMipmap > 0 && properties.maxTexture2DMipmap[1] > 0 &&
        properties.maxTextureCubemap > 0);
}

// The number of levels that an array has if more are asked for than there can be.
unsigned most_levels(size_t w, size_t h, size_t d, unsigned asked) {
  CUDA_ARRAY3D_DESCRIPTOR a{w, h, d, CU_AD_FORMAT_FLOAT, 1, 0}, smallest;
  CUmipmappedArray m;
  CUarray level;
  DRIVER(cuMipmappedArrayCreate(&m, &a, asked));
  unsigned n = 0;
  while (cuMipmappedArrayGetLevel(&level, m, n) == CUDA_SUCCESS) ++n;
  DRIVER(cuArray3DGetDescriptor(&smallest, level));
  auto half = [&](size_t extent) {
    return extent == 0 ? 0 : std::max<size_t>(extent >> (n - 1), 1);
  };
  CHECK(smallest.Width == half(w) && smallest.Height == half(h) && smallest.Depth == half(d));
  CHECK(cuMipmappedArrayGetLevel(&level, m, n) == CUDA_ERROR_INVALID_VALUE);
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
  CHECK(cuMipmappedArrayGetMemoryRequirements(&needs, m, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuArrayGetMemoryRequirements(&needs, level, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuArrayDestroy(level) == CUDA_ERROR_INVALID_HANDLE);
  DRIVER(cuMipmappedArrayDestroy(m));
  CHECK(cuMipmappedArrayDestroy(m) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuArray3DGetDescriptor(&smallest, level) == CUDA_ERROR_INVALID_HANDLE);
  return n;
}

bool refused(size_t w, size_t h, size_t d, unsigned flags,
             CUresult expected = CUDA_ERROR_INVALID_VALUE) {
  CUDA_ARRAY3D_DESCRIPTOR a{w, h, d, CU_AD_FORMAT_FLOAT, 1, flags};
  CUmipmappedArray m;
  return cuMipmappedArrayCreate(&m, &a, 2) == expected;
}

void check_arrays() {
  CHECK(most_levels(16, 8, 0, 3) == 3 && most_levels(16, 8, 0, 0) == 1 &&
        most_levels(16, 8, 0, 99) == 5);
  CHECK(most_levels(1, 0, 0, 99) == 1 && most_levels(3, 4, 5, 99) == 3 &&
        most_levels(1000, 0, 0, 99) == 10);
  CHECK(refused(0, 0, 0, 0) && refused(4, 0, 4, 0) && refused(1 << 20, 0, 0, 0) &&
        refused(4, 1 << 20, 0, 0));
  CHECK(refused(8, 8, 5, CUDA_ARRAY3D_CUBEMAP) && refused(8, 4, 6, CUDA_ARRAY3D_CUBEMAP));
  CHECK(refused(8, 8, 9, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED) &&
        refused(8, 8, 0, CUDA_ARRAY3D_LAYERED));
  CHECK(refused(8, 8, 4096, CUDA_ARRAY3D_LAYERED) &&
        refused(8, 8, 0, CUDA_ARRAY3D_SPARSE, CUDA_ERROR_NOT_SUPPORTED));
  CUDA_ARRAY3D_DESCRIPTOR video{64, 64, 0, CU_AD_FORMAT_NV12, 1, 0};
  CUmipmappedArray m;
  for (int i = 0; i < 2; ++i)
    CHECK(cuMipmappedArrayCreate(&m, &video, 1) == CUDA_ERROR_NOT_SUPPORTED);
  cudaArray_t level;
  CHECK(cudaGetMipmappedArrayLevel(&level, nullptr, 0) == cudaErrorInvalidResourceHandle);
  CUDA(cudaFreeMipmappedArray(nullptr));
  (void)cudaGetLastError();
}

void check_errors(const Pyramid &p) {
  check_arrays();
  cudaResourceDesc r{};
  r.resType = cudaResourceTypeMipmappedArray;
  r.res.mipmap.mipmap = p.array;
  auto fails = [&](const cudaTextureDesc &d, const cudaResourceViewDesc *v = nullptr) {
    cudaTextureObject_t t;
    return cudaCreateTextureObject(&t, &r, &d, v) == cudaErrorInvalidValue &&
           cudaGetLastError() != cudaSuccess;
  };
  cudaTextureDesc good = sampling(cudaFilterModePoint, cudaFilterModePoint, cudaAddressModeClamp),
                  bad = good;
  bad.normalizedCoords = 0;
  CHECK(fails(bad));
  bad = good;
  bad.seamlessCubemap = 1;
  CHECK(fails(bad));
  for (int kind = 0; kind < 7; ++kind) {
    cudaResourceViewDesc v = view_of(p, 0, 3);
    if (kind == 0) v.lastMipmapLevel = 4;
    if (kind == 1) v.firstMipmapLevel = 3, v.lastMipmapLevel = 2;
    if (kind == 2) v.width /= 2;
    if (kind == 3) v.lastLayer = 1;
    if (kind == 4) v.format = cudaResViewFormatHalf1;  // another size
    if (kind == 5) v.format = static_cast<cudaResourceViewFormat>(-1);
    CHECK(fails(good, &v) == (kind < 6));
  }
  cudaResourceViewDesc blocks = view_of(p, 0, 3);
  blocks.format = cudaResViewFormatUnsignedBlockCompressed1;
  cudaTextureObject_t t;
  CHECK(cudaCreateTextureObject(&t, &r, &good, &blocks) == cudaErrorNotSupported);
  cudaSurfaceObject_t s;
  CHECK(cudaCreateSurfaceObject(&s, &r) == cudaErrorInvalidValue &&
        cudaGetLastError() != cudaSuccess);
}

// Arrays end with their context.
void check_lifetimes(const Pyramid &p) {
  CUDA(cudaDeviceReset());
  cudaArray_t a;
  CHECK(cudaGetMipmappedArrayLevel(&a, p.array, 0) == cudaErrorInvalidResourceHandle);
}
