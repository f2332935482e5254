// SPDX-License-Identifier: Apache-2.0
//
// The level of detail of a fetch: 0 is the largest level of a mipmapped array, n its n-th half. The
// instruction names it (tex.level) or gives derivatives of the coordinates (tex.grad); otherwise it
// is 0. The texture's bias is added, and its clamps apply (CUDA driver API, cuTexObjectCreate).
// Between two levels, the nearer one is read, or both are, with weights that have 8 bits of
// fraction.
//
// CUDA does not say how derivatives become a level; this is what Vulkan 1.3 says ("Scale Factor
// Operation, LOD Operation and Image Level(s) Selection", "Texel Anisotropic Filtering"): the
// longer side of the footprint in elements of level 0 decides. With anisotropy, the shorter one
// does, and the mean of several fetches along the longer one is the result.
#include <algorithm>
#include <bit>
#include <cmath>

#include "softcuda/vm/cube.h"

namespace ckpt::softcuda::vm {
namespace {

struct Levels {
  size_t near, far;
  float weight;  // of `far`
};

// fmin and fmax never return a NaN that only one operand is.
Levels levels_at(const Texture &t, float detail) {
  float last = static_cast<float>(t.levels.size() - 1);
  float d = std::fmin(std::fmax(detail + t.level_bias, t.min_level), t.max_level);
  d = std::round(std::fmin(std::fmax(d, 0.0f), last) * 256.0f) / 256.0f;
  size_t nearest = static_cast<size_t>(std::max(std::ceil(d - 0.5f), 0.0f));
  if (!t.filter_levels) return {nearest, nearest, 0};
  size_t near = static_cast<size_t>(d);
  return {near, std::min(near + 1, t.levels.size() - 1), d - std::floor(d)};
}

Texel fetch_levels(const Texture &t, const Place &p, float detail) {
  if (t.levels.size() == 1) return fetch_level(t, t.levels[0], p);
  Levels at = levels_at(t, detail);
  Texel near = fetch_level(t, t.levels[at.near], p);
  if (at.weight == 0) return near;
  Texel far = fetch_level(t, t.levels[at.far], p), out;
  for (u32 c = 0; c < 4; ++c)
    out.value[c] = std::bit_cast<u32>((1 - at.weight) * std::bit_cast<float>(near.value[c]) +
                                      at.weight * std::bit_cast<float>(far.value[c]));
  return out;
}

Place resolved(const Texture &t, const Place &p) {
  bool cube = p.geometry == Geometry::Cube || p.geometry == Geometry::LayeredCube;
  return cube ? place_on_face(p, t.levels[0].depth) : p;
}

// A derivative of the coordinates of `p`, as one of those that `resolved` returns.
void resolve_derivative(const Place &p, const float *d, float *out) {
  if (p.geometry != Geometry::Cube && p.geometry != Geometry::LayeredCube) {
    std::copy_n(d, axes_of(p.geometry), out);
    return;
  }
  u32 face = face_of(p.real);
  OnFace v = on_face(face, p.real), dv = on_face(face, d);
  out[0] = (dv.s * v.m - v.s * dv.m) / (2 * v.m * v.m);
  out[1] = (dv.t * v.m - v.t * dv.m) / (2 * v.m * v.m);
}

// In elements of level 0.
float length_of(const Texture &t, Geometry g, const float *d) {
  const u32 sizes[] = {t.levels[0].width, t.levels[0].height, t.levels[0].depth};
  bool scaled = t.normalized || g == Geometry::Cube;
  float sum = 0;
  for (u32 k = 0; k < axes_of(g); ++k) {
    float x = scaled ? d[k] * static_cast<float>(sizes[k]) : d[k];
    sum += x * x;
  }
  return std::sqrt(sum);
}

// The ratio of a footprint's sides, and so the greatest number of fetches; at most the texture's
// anisotropy.
float ratio_of(const Texture &t, float longer, float shorter) {
  if (t.anisotropy <= 1 || !t.filter || !t.gives_floats() || !(longer > 0)) return 1;
  return std::fmin(longer / shorter, static_cast<float>(t.anisotropy));
}

}  // namespace

Texel fetch(const Texture &t, const Place &p, float detail) {
  return fetch_levels(t, resolved(t, p), detail);
}

Texel fetch(const Texture &t, const Place &p, const float *dx, const float *dy) {
  Place at = resolved(t, p);
  float d[2][3] = {};
  resolve_derivative(p, dx, d[0]);
  resolve_derivative(p, dy, d[1]);
  float x = length_of(t, at.geometry, d[0]), y = length_of(t, at.geometry, d[1]);
  const float *along = x > y ? d[0] : d[1];
  float longer = std::fmax(x, y), ratio = ratio_of(t, longer, std::fmin(x, y));
  float detail = std::log2(longer / ratio);
  u32 n = static_cast<u32>(std::ceil(ratio));
  if (n <= 1) return fetch_levels(t, at, detail);
  float sum[4] = {};
  for (u32 i = 1; i <= n; ++i) {
    Place one = at;
    float step = static_cast<float>(i) / static_cast<float>(n + 1) - 0.5f;
    for (u32 k = 0; k < axes_of(at.geometry); ++k) one.real[k] += step * along[k];
    Texel texel = fetch_levels(t, one, detail);
    for (u32 c = 0; c < 4; ++c) sum[c] += std::bit_cast<float>(texel.value[c]);
  }
  Texel out;
  for (u32 c = 0; c < 4; ++c) out.value[c] = std::bit_cast<u32>(sum[c] / static_cast<float>(n));
  return out;
}

}  // namespace ckpt::softcuda::vm
