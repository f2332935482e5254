// SPDX-License-Identifier: Apache-2.0
//
// Textures and surfaces as kernels access them (CUDA C++ Programming Guide, "Texture Fetching").
// The handle of a texture object is the host address of its Texture.
#pragma once

#include <vector>

#include "common/base/bytes.h"

namespace ckpt::softcuda::vm {

enum class Channel : u8 { U8, U16, U32, S8, S16, S32, Half, Float };
enum class AddressMode : u8 { Wrap, Clamp, Mirror, Border };
enum class Geometry : u8 { D1, D2, D3, Layered1, Layered2, Cube, LayeredCube };

// The data of a texture in one size.
struct Level {
  char *data = nullptr;
  u64 row_bytes = 0, slice_bytes = 0;
  u32 width = 1, height = 1, depth = 1;  // elements; depth is the number of layers, if layered
};

struct Texture {
  std::vector<Level> levels = std::vector<Level>(1);  // of a mipmapped array: the largest one first
  u32 channels = 1;
  Channel channel = Channel::U8;
  bool linear_memory = false;
  // The rest is for textures only.
  AddressMode mode[3] = {AddressMode::Clamp, AddressMode::Clamp, AddressMode::Clamp};
  bool filter = false;      // linear interpolation
  bool as_float = false;    // integers are read as fractions of their range
  bool normalized = false;  // coordinates are in [0, 1)
  bool srgb = false;        // bytes are read as colours of sRGB, and made linear
  bool seamless = false;    // a cubemap is filtered across the edges of its faces
  float border[4] = {0, 0, 0, 0};
  bool filter_levels = false;  // linear interpolation between levels
  float level_bias = 0, min_level = 0, max_level = 0;
  u32 anisotropy = 1;  // at most this ratio of the sides of a footprint

  u32 element_bytes() const;
  bool gives_floats() const;
};

bool is_layered(Geometry g);
// That an instruction has, without the layer: of a cubemap, the three of a direction.
u32 coordinates_of(Geometry g);

// Live objects. Kernels pass handles as plain numbers, so each is looked up. Thread-safe.
void register_texture(const Texture *t);
void unregister_texture(const Texture *t);
// nullptr: no live texture or surface.
const Texture *texture_at(u64 handle);

// Where an instruction reads or writes.
struct Place {
  Geometry geometry = Geometry::D1;
  u32 layer = 0;
  float real[3] = {0, 0, 0};  // of a cubemap: the direction
  i32 whole[3] = {0, 0,
                  0};  // the same operands as integers, and after them the layer, if there is one
};

// The result of a fetch: the bits of f32, s32 or u32 values, as the texture's format demands.
struct Texel {
  u32 value[4];
};
// At Place::real and a level of detail. Without mipmaps, each level of detail is level 0.
Texel fetch(const Texture &t, const Place &p, float detail);
// The level of detail follows from the derivatives of the coordinates along two axes (mipmap.cc).
Texel fetch(const Texture &t, const Place &p, const float *dx, const float *dy);
// At Place::whole in the level, and without filtering.
Texel fetch_at(const Texture &t, const Place &p, i32 level);

// The element at Place::whole of a surface; whole[0] counts bytes. nullptr: outside of the surface.
char *surface_element(const Texture &t, const Place &p, u32 bytes);

}  // namespace ckpt::softcuda::vm
