// SPDX-License-Identifier: Apache-2.0
//
// Textures and surfaces as kernels access them (CUDA C++ Programming Guide, "Texture Fetching").
// The handle of a texture object is the host address of its Texture.
#pragma once

#include "common/base/bytes.h"

namespace ckpt::softcuda::vm {

enum class Channel : u8 { U8, U16, U32, S8, S16, S32, Half, Float };
enum class AddressMode : u8 { Wrap, Clamp, Mirror, Border };
enum class Geometry : u8 { D1, D2, D3, Layered1, Layered2 };

struct Texture {
  char *data = nullptr;
  u64 row_bytes = 0, slice_bytes = 0;
  u32 width = 1, height = 1, depth = 1;  // elements; depth is the number of layers, if layered
  u32 channels = 1;
  Channel channel = Channel::U8;
  bool linear_memory = false;
  // The rest is for textures only.
  AddressMode mode[3] = {AddressMode::Clamp, AddressMode::Clamp, AddressMode::Clamp};
  bool filter = false;      // linear interpolation
  bool as_float = false;    // integers are read as fractions of their range
  bool normalized = false;  // coordinates are in [0, 1)
  float border[4] = {0, 0, 0, 0};

  u32 element_bytes() const;
};

// Live objects. Kernels pass handles as plain numbers, so each is looked up. Thread-safe.
void register_texture(const Texture *t);
void unregister_texture(const Texture *t);
// nullptr: no live texture or surface.
const Texture *texture_at(u64 handle);

// The result of a fetch: the bits of f32, s32 or u32 values, as the texture's format demands.
struct Texel {
  u32 value[4];
};
Texel fetch(const Texture &t, Geometry g, const float *coordinates, u32 layer);
// With integer coordinates, and without filtering.
Texel fetch_at(const Texture &t, Geometry g, const i32 *coordinates, u32 layer);

// The element of a surface; coordinates[0] counts bytes. nullptr: outside of the surface.
char *surface_element(const Texture &t, Geometry g, const i32 *coordinates, u32 bytes);

}  // namespace ckpt::softcuda::vm
