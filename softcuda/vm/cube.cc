// SPDX-License-Identifier: Apache-2.0
#include "softcuda/vm/cube.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ckpt::softcuda::vm {
namespace {

struct Axis {
  u32 index;  // of x, y, z
  float sign;
};
struct Face {
  Axis s, t, m;
};
constexpr Face kFaces[6] = {{{2, -1}, {1, -1}, {0, 1}}, {{2, 1}, {1, -1}, {0, -1}},
                            {{0, 1}, {2, 1}, {1, 1}},   {{0, 1}, {2, -1}, {1, -1}},
                            {{0, 1}, {1, -1}, {2, 1}},  {{0, -1}, {1, -1}, {2, -1}}};

// Moves an element beside an edge of its face to the face that has the same edge. The centres of
// the elements of a face have the coordinates 1 - n, 3 - n, … n - 1, those beside it -n - 1 and n +
// 1, and the face itself is at n: exact numbers, and the longest one is that of the other face.
void cross_edge(u32 size, i64 *at, u32 &layer) {
  const Face &f = kFaces[layer % 6];
  float direction[3], n = static_cast<float>(size);
  direction[f.s.index] = f.s.sign * (static_cast<float>(2 * at[0] + 1) - n);
  direction[f.t.index] = f.t.sign * (static_cast<float>(2 * at[1] + 1) - n);
  direction[f.m.index] = f.m.sign * n;
  u32 next = face_of(direction);
  OnFace there = on_face(next, direction);
  for (u32 k = 0; k < 2; ++k) {
    float c = k == 0 ? there.s : there.t;
    at[k] = std::clamp<i64>(static_cast<i64>(c + n - 1) / 2, 0, size - 1);
  }
  layer = layer - layer % 6 + next;
}

}  // namespace

// Where two are equally long, z comes before y, and y before x; CUDA does not say.
u32 face_of(const float *v) {
  float x = std::fabs(v[0]), y = std::fabs(v[1]), z = std::fabs(v[2]);
  u32 axis = z >= x && z >= y ? 2 : y >= x ? 1 : 0;
  return 2 * axis + (v[axis] < 0);
}

OnFace on_face(u32 face, const float *v) {
  const Face &f = kFaces[face];
  return {f.s.sign * v[f.s.index], f.t.sign * v[f.t.index], f.m.sign * v[f.m.index]};
}

Place place_on_face(const Place &p, u32 layers) {
  u32 face = face_of(p.real);
  OnFace c = on_face(face, p.real);
  Place out;
  out.geometry = Geometry::Cube;
  u32 cube =
      p.geometry == Geometry::LayeredCube ? std::min(p.layer, std::max(layers / 6, 1u) - 1) : 0;
  out.layer = 6 * cube + face;
  out.real[0] = (c.s / c.m + 1) / 2;
  out.real[1] = (c.t / c.m + 1) / 2;
  return out;
}

// At a corner of the cube only three elements meet: their mean stands for the fourth (Vulkan 1.3,
// "Cube Map Corner Handling").
Texel filtered_across_edges(const Texture &t, const Level &l, const float *x, u32 layer) {
  float weight[2], sum[4] = {}, all[4] = {}, missing = 0;
  i64 base[2];
  for (u32 k = 0; k < 2; ++k) {
    float b = x[k] - 0.5f, whole = std::floor(b);
    base[k] = std::clamp<i64>(static_cast<i64>(whole), -1, l.width - 1);
    weight[k] = std::round((b - whole) * 256.0f) / 256.0f;
  }
  for (u32 corner = 0; corner < 4; ++corner) {
    i64 at[3] = {base[0] + (corner & 1), base[1] + (corner >> 1), 0};
    float w = (corner & 1 ? weight[0] : 1 - weight[0]) * (corner >> 1 ? weight[1] : 1 - weight[1]);
    u32 face = layer;
    bool out[2] = {at[0] < 0 || at[0] >= l.width, at[1] < 0 || at[1] >= l.height};
    if (out[0] && out[1]) {
      missing = w;
      continue;
    }
    if (out[0] || out[1]) cross_edge(l.width, at, face);
    Sample s = sample(t, l, Geometry::Cube, at, face);
    for (u32 c = 0; c < 4; ++c) sum[c] += w * s.f[c], all[c] += s.f[c];
  }
  Texel out;
  for (u32 c = 0; c < 4; ++c) out.value[c] = std::bit_cast<u32>(sum[c] + missing * all[c] / 3);
  return out;
}

}  // namespace ckpt::softcuda::vm
