// SPDX-License-Identifier: Apache-2.0
#include "softcuda/vm/texture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>

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

bool gives_floats(const Texture &t) {
  return t.as_float || t.channel == Channel::Float || t.channel == Channel::Half;
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

u32 axes_of(Geometry g) {
  return g == Geometry::D1 || g == Geometry::Layered1 ? 1 : g == Geometry::D3 ? 3 : 2;
}

struct Sample {
  float f[4];
  u32 bits[4];
};

Sample sample(const Texture &t, Geometry g, const i64 *at, u32 layer) {
  Sample s{};
  bool floats = gives_floats(t);
  s.bits[3] = floats ? std::bit_cast<u32>(1.0f) : 1;
  s.f[3] = 1;
  const i64 sizes[] = {t.width, t.height, t.depth};
  i64 index[3] = {0, 0, 0};
  bool border = false;
  for (u32 k = 0; k < axes_of(g); ++k) {
    index[k] = index_of(at[k], sizes[k], t.mode[k], t.normalized);
    border |= index[k] < 0;
  }
  if (g == Geometry::Layered1 || g == Geometry::Layered2)
    index[2] = std::min<i64>(layer, t.depth - 1);
  const char *p = nullptr;
  if (!border)
    p = t.data + index[2] * static_cast<i64>(t.slice_bytes) +
        index[1] * static_cast<i64>(t.row_bytes) + index[0] * t.element_bytes();
  u32 step = channel_bytes(t.channel);
  for (u32 c = 0; c < t.channels; ++c) {
    if (floats) {
      s.f[c] = border ? t.border[c] : float_at(p + c * step, t.channel);
      s.bits[c] = std::bit_cast<u32>(s.f[c]);
    } else {
      s.bits[c] = border ? static_cast<u32>(t.border[c])
                         : static_cast<u32>(integer_at(p + c * step, t.channel));
    }
  }
  return s;
}

// Weights have 8 bits of fraction, as the programming guide specifies ("Linear Filtering").
Texel filtered(const Texture &t, Geometry g, const float *x, u32 layer) {
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
    Sample s = sample(t, g, at, layer);
    for (u32 c = 0; c < 4; ++c) sum[c] += w * s.f[c];
  }
  Texel out;
  for (u32 c = 0; c < 4; ++c) out.value[c] = std::bit_cast<u32>(sum[c]);
  return out;
}

}  // namespace

u32 Texture::element_bytes() const { return channels * channel_bytes(channel); }

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

Texel fetch(const Texture &t, Geometry g, const float *coordinates, u32 layer) {
  const u32 sizes[] = {t.width, t.height, t.depth};
  float x[3] = {0, 0, 0};
  for (u32 k = 0; k < axes_of(g); ++k)
    x[k] = t.normalized ? coordinates[k] * static_cast<float>(sizes[k]) : coordinates[k];
  if (t.filter && gives_floats(t)) return filtered(t, g, x, layer);
  i64 at[3] = {0, 0, 0};
  for (u32 k = 0; k < axes_of(g); ++k) at[k] = static_cast<i64>(std::floor(x[k]));
  Sample s = sample(t, g, at, layer);
  Texel out;
  std::memcpy(out.value, s.bits, sizeof out.value);
  return out;
}

Texel fetch_at(const Texture &t, Geometry g, const i32 *coordinates, u32 layer) {
  i64 at[3] = {0, 0, 0};
  for (u32 k = 0; k < axes_of(g); ++k) at[k] = coordinates[k];
  Sample s = sample(t, g, at, layer);
  // A fetch outside of linear memory returns zero.
  bool outside =
      t.linear_memory && (coordinates[0] < 0 || static_cast<u32>(coordinates[0]) >= t.width);
  Texel out;
  std::memcpy(out.value, s.bits, sizeof out.value);
  if (outside) std::memset(out.value, 0, sizeof out.value);
  return out;
}

char *surface_element(const Texture &t, Geometry g, const i32 *c, u32 bytes) {
  i64 x = c[0];
  bool layered = g == Geometry::Layered1 || g == Geometry::Layered2;
  i64 y = g == Geometry::D1 || g == Geometry::Layered1 ? 0 : c[1];
  i64 z = g == Geometry::D3 ? c[2] : layered ? c[axes_of(g)] : 0;
  if (x < 0 || y < 0 || z < 0 || y >= t.height || z >= t.depth) return nullptr;
  if (static_cast<u64>(x) + bytes > u64{t.width} * t.element_bytes()) return nullptr;
  return t.data + z * static_cast<i64>(t.slice_bytes) + y * static_cast<i64>(t.row_bytes) + x;
}

}  // namespace ckpt::softcuda::vm
