// SPDX-License-Identifier: Apache-2.0
//
// What a fetch from a texture returns, computed on the host: CUDA C++ Programming Guide, "Texture
// Fetching" and "Cubemap Textures"; CUDA driver API, cuTexObjectCreate, for levels; Vulkan 1.3,
// "Image Operations", for what derivatives mean. Coordinates are normalised.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

struct Image {
  int size[3] = {1, 1, 1};  // of a layered image: size[2] is the number of layers
  std::vector<float> texel;

  float at(int x, int y, int z) const { return texel[(z * size[1] + y) * size[0] + x]; }
};

struct Fetched {
  std::vector<Image> levels;
  int axes = 2;
  bool layered = false;
  cudaTextureDesc how{};

  // At an index, to which the addressing mode applies.
  double element(const Image &m, const int *at, int layer) const {
    int k[3] = {0, 0, layered ? std::min(layer, m.size[2] - 1) : 0};
    for (int a = 0; a < axes; ++a) {
      int n = m.size[a], i = at[a];
      switch (how.addressMode[a]) {
        case cudaAddressModeWrap: i = (i % n + n) % n; break;
        case cudaAddressModeMirror:
          i = (i % (2 * n) + 2 * n) % (2 * n);
          i = i < n ? i : 2 * n - 1 - i;
          break;
        case cudaAddressModeClamp: i = std::max(0, std::min(i, n - 1)); break;
        default:
          if (i < 0 || i >= n) return how.borderColor[0];
      }
      k[a] = i;
    }
    return m.at(k[0], k[1], k[2]);
  }

  // Linear filtering, one axis after the other; weights have 8 bits of fraction.
  double filtered(const Image &m, const float *p, int layer, int axis, int *at) const {
    if (axis < 0) return element(m, at, layer);
    float x = p[axis] * static_cast<float>(m.size[axis]);
    if (how.filterMode == cudaFilterModePoint) {
      at[axis] = static_cast<int>(std::floor(x));
      return filtered(m, p, layer, axis - 1, at);
    }
    float b = x - 0.5f;
    double weight = std::floor((b - std::floor(b)) * 256 + 0.5) / 256;
    at[axis] = static_cast<int>(std::floor(b));
    double near = filtered(m, p, layer, axis - 1, at);
    at[axis] = static_cast<int>(std::floor(b)) + 1;
    return near + weight * (filtered(m, p, layer, axis - 1, at) - near);
  }

  double in_level(size_t level, const float *p, int layer) const {
    int at[3] = {0, 0, 0};
    return filtered(levels[level], p, layer, axes - 1, at);
  }

  // A level of detail that lies in the middle between two levels has no nearest one.
  double at(const float *p, int layer, double detail) const {
    double d = std::max<double>(detail + how.mipmapLevelBias, how.minMipmapLevelClamp);
    d = std::min<double>(d, how.maxMipmapLevelClamp);
    d = std::max(0.0, std::min(d, static_cast<double>(levels.size()) - 1));
    d = std::floor(d * 256 + 0.5) / 256;
    if (how.mipmapFilterMode == cudaFilterModePoint)
      return in_level(static_cast<size_t>(d + 0.5), p, layer);
    size_t near = static_cast<size_t>(d), far = std::min(near + 1, levels.size() - 1);
    return in_level(near, p, layer) * (near + 1 - d) + in_level(far, p, layer) * (d - near);
  }

  double along(const float *p, int layer, const float *dx, const float *dy) const {
    double length[2] = {};
    for (int a = 0; a < axes; ++a) {
      length[0] += std::pow(dx[a] * levels[0].size[a], 2);
      length[1] += std::pow(dy[a] * levels[0].size[a], 2);
    }
    double longer = std::sqrt(std::max(length[0], length[1])),
           shorter = std::sqrt(std::min(length[0], length[1]));
    double most =
        how.filterMode == cudaFilterModeLinear ? std::max(1u, std::min(how.maxAnisotropy, 16u)) : 1;
    double ratio = std::max(1.0, std::min(longer / shorter, most)), sum = 0;
    int n = static_cast<int>(std::ceil(ratio));
    for (int i = 1; i <= n; ++i) {
      float q[3] = {p[0], p[1], p[2]};
      for (int a = 0; a < axes; ++a)
        q[a] += (static_cast<float>(i) / (n + 1) - 0.5f) * (length[0] > length[1] ? dx : dy)[a];
      sum += at(q, layer, std::log2(longer / ratio));
    }
    return sum / n;
  }
};

// The face of a cubemap, and the place on it.
inline int face_of(const float *d, float *place) {
  float x = d[0], y = d[1], z = d[2], ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  auto put = [&](int face, float s, float t, float m) {
    place[0] = (s / m + 1) / 2;
    place[1] = (t / m + 1) / 2;
    return face;
  };
  if (ax > ay && ax > az) return x > 0 ? put(0, -z, -y, ax) : put(1, z, -y, ax);
  if (ay > ax && ay > az) return y > 0 ? put(2, x, z, ay) : put(3, x, -z, ay);
  return z > 0 ? put(4, x, -y, az) : put(5, -x, -y, az);
}
