// SPDX-License-Identifier: Apache-2.0
#include "softcuda/vm/texture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>

#include "softcuda/vm/cube.h"

namespace ckpt::softcuda::vm {
namespace {

std::shared_mutex mutex;
std::unordered_set<const void *> &live() {
  static auto *const kLive = new std::unordered_set<const void *>;
  return *kLive;
}

u32 channel_bytes(Channel c) {
  switch (c) {
    case Channel::U8:
    case Channel::S8: return 1;
    case Channel::U16:
    case Channel::S16:
    case Channel::Half: return 2;
    default: return 4;
  }
}

float half_to_float(u16 h) {
  u32 sign = (h & 0x8000u) << 16, rest = h & 0x7fff;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  return std::bit_cast<float>(sign |
                              std::bit_cast<u32>(std::bit_cast<float>(rest << 13) * 0x1p112f));
}

template <class T>
T read(const char *p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

i64 integer_at(const char *p, Channel c) {
  switch (c) {
    case Channel::U8: return read<u8>(p);
    case Channel::S8: return read<std::int8_t>(p);
    case Channel::U16: return read<u16>(p);
    case Channel::S16: return read<std::int16_t>(p);
    case Channel::S32: return read<i32>(p);
    default: return read<u32>(p);
  }
}

float float_at(const char *p, Channel c) {
  switch (c) {
    case Channel::Float: return read<float>(p);
    case Channel::Half: return half_to_float(read<u16>(p));
    case Channel::U8: return static_cast<float>(integer_at(p, c)) / 255.0f;
    case Channel::U16: return static_cast<float>(integer_at(p, c)) / 65535.0f;
    case Channel::S8: return std::max(static_cast<float>(integer_at(p, c)) / 127.0f, -1.0f);
    case Channel::S16: return std::max(static_cast<float>(integer_at(p, c)) / 32767.0f, -1.0f);
    default: return static_cast<float>(integer_at(p, c));
  }
}

// IEC 61966-2-1.
float linear_of_srgb(float v) {
  return v <= 0.04045f ? v / 12.92f : std::pow((v + 0.055f) / 1.055f, 2.4f);
}

i64 floor_mod(i64 a, i64 n) { return ((a % n) + n) % n; }

// Applies the addressing mode to an index along one axis. -1: the border colour.
i64 index_of(i64 i, i64 n, AddressMode mode, bool normalized) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case AddressMode::Border: return -1;
    case AddressMode::Wrap:
      if (normalized) return floor_mod(i, n);
      break;
    case AddressMode::Mirror:
      if (normalized) {
        i64 k = floor_mod(i, 2 * n);
        return k < n ? k : 2 * n - 1 - k;
      }
      break;
    default: break;
  }
  return i < 0 ? 0 : n - 1;
}

// Applies the addressing modes. False: the border colour.
bool resolve(const Texture &t, const Level &l, Geometry g, const i64 *at, i64 *index) {
  const i64 sizes[] = {l.width, l.height, l.depth};
  bool inside = true;
  for (u32 k = 0; k < axes_of(g); ++k) {
    AddressMode mode = t.seamless ? AddressMode::Clamp : t.mode[k];
    index[k] = index_of(at[k], sizes[k], mode, t.normalized);
    inside &= index[k] >= 0;
  }
  return inside;
}

Texel texel_of(const Sample &s) {
  Texel out;
  std::memcpy(out.value, s.bits, sizeof out.value);
  return out;
}

// Weights have 8 bits of fraction, as the programming guide specifies ("Linear Filtering").
Texel filtered(const Texture &t, const Level &l, Geometry g, const float *x, u32 layer) {
  u32 axes = axes_of(g);
  i64 base[3] = {0, 0, 0};
  float weight[3] = {0, 0, 0};
  for (u32 k = 0; k < axes; ++k) {
    float b = x[k] - 0.5f, whole = std::floor(b);
    base[k] = static_cast<i64>(whole);
    weight[k] = std::round((b - whole) * 256.0f) / 256.0f;
  }
  float sum[4] = {0, 0, 0, 0};
  for (u32 corner = 0; corner < 1u << axes; ++corner) {
    i64 at[3];
    float w = 1;
    for (u32 k = 0; k < 3; ++k) {
      bool far = corner >> k & 1;
      at[k] = base[k] + far;
      if (k < axes) w *= far ? weight[k] : 1 - weight[k];
    }
    if (w == 0) continue;
    Sample s = sample(t, l, g, at, layer);
    for (u32 c = 0; c < 4; ++c) sum[c] += w * s.f[c];
  }
  Texel out;
  for (u32 c = 0; c < 4; ++c) out.value[c] = std::bit_cast<u32>(sum[c]);
  return out;
}

}  // namespace

u32 Texture::element_bytes() const { return channels * channel_bytes(channel); }
bool Texture::gives_floats() const {
  return as_float || channel == Channel::Float || channel == Channel::Half;
}

u32 axes_of(Geometry g) {
  return g == Geometry::D1 || g == Geometry::Layered1 ? 1 : g == Geometry::D3 ? 3 : 2;
}
u32 coordinates_of(Geometry g) {
  return g == Geometry::Cube || g == Geometry::LayeredCube ? 3 : axes_of(g);
}
bool is_layered(Geometry g) {
  return g == Geometry::Layered1 || g == Geometry::Layered2 || g == Geometry::LayeredCube;
}

Sample sample(const Texture &t, const Level &l, Geometry g, const i64 *at, u32 layer) {
  Sample s{};
  bool floats = t.gives_floats();
  s.bits[3] = floats ? std::bit_cast<u32>(1.0f) : 1;
  s.f[3] = 1;
  i64 index[3] = {0, 0, 0};
  bool border = !resolve(t, l, g, at, index);
  if (is_layered(g) || g == Geometry::Cube) index[2] = std::min<i64>(layer, l.depth - 1);
  const char *p = nullptr;
  if (!border)
    p = l.data + index[2] * static_cast<i64>(l.slice_bytes) +
        index[1] * static_cast<i64>(l.row_bytes) + index[0] * t.element_bytes();
  u32 step = channel_bytes(t.channel);
  for (u32 c = 0; c < t.channels; ++c) {
    if (floats) {
      s.f[c] = border ? t.border[c] : float_at(p + c * step, t.channel);
      if (t.srgb && !border && c < 3) s.f[c] = linear_of_srgb(s.f[c]);
      s.bits[c] = std::bit_cast<u32>(s.f[c]);
    } else {
      s.bits[c] = border ? static_cast<u32>(t.border[c])
                         : static_cast<u32>(integer_at(p + c * step, t.channel));
    }
  }
  return s;
}

void register_texture(const Texture *t) {
  std::unique_lock lock(mutex);
  live().insert(t);
}

void unregister_texture(const Texture *t) {
  std::unique_lock lock(mutex);
  live().erase(t);
}

const Texture *texture_at(u64 handle) {
  std::shared_lock lock(mutex);
  const Texture *t = reinterpret_cast<const Texture *>(handle);
  return live().contains(t) ? t : nullptr;
}

Texel fetch_level(const Texture &t, const Level &l, const Place &p) {
  const u32 sizes[] = {l.width, l.height, l.depth};
  bool scaled = t.normalized || p.geometry == Geometry::Cube;
  float x[3] = {0, 0, 0};
  for (u32 k = 0; k < axes_of(p.geometry); ++k)
    x[k] = scaled ? p.real[k] * static_cast<float>(sizes[k]) : p.real[k];
  if (t.filter && t.gives_floats())
    return t.seamless && p.geometry == Geometry::Cube ? filtered_across_edges(t, l, x, p.layer)
                                                      : filtered(t, l, p.geometry, x, p.layer);
  i64 at[3] = {0, 0, 0};
  for (u32 k = 0; k < axes_of(p.geometry); ++k) at[k] = static_cast<i64>(std::floor(x[k]));
  return texel_of(sample(t, l, p.geometry, at, p.layer));
}

Texel fetch_at(const Texture &t, const Place &p, i32 level) {
  i32 last = static_cast<i32>(t.levels.size()) - 1;
  const Level &l = t.levels[static_cast<size_t>(std::clamp(level, 0, last))];
  // A fetch outside of linear memory returns zero.
  if (t.linear_memory && (p.whole[0] < 0 || static_cast<u32>(p.whole[0]) >= l.width)) return {};
  i64 at[3] = {p.whole[0], p.whole[1], p.whole[2]};
  return texel_of(sample(t, l, p.geometry, at, p.layer));
}

char *surface_element(const Texture &t, const Place &p, u32 bytes) {
  const Level &l = t.levels[0];
  const i32 *c = p.whole;
  Geometry g = p.geometry;
  i64 x = c[0];
  i64 y = g == Geometry::D1 || g == Geometry::Layered1 ? 0 : c[1];
  i64 z = g == Geometry::D3 ? c[2] : is_layered(g) ? c[axes_of(g)] : 0;
  if (x < 0 || y < 0 || z < 0 || y >= l.height || z >= l.depth) return nullptr;
  if (static_cast<u64>(x) + bytes > u64{l.width} * t.element_bytes()) return nullptr;
  return l.data + z * static_cast<i64>(l.slice_bytes) + y * static_cast<i64>(l.row_bytes) + x;
}

}  // namespace ckpt::softcuda::vm
