// SPDX-License-Identifier: Apache-2.0
//
// Textures and surfaces as kernels read them (CUDA C++ Programming Guide, "Texture Fetching"). The
// value of a texture object is its address here.
#pragma once

#include "common/base/bytes.h"

namespace ckpt::softcuda::vm {

struct Warp;
struct Op;

enum class Channel : u8 { U8, U16, U32, S8, S16, S32, Half, Float };
enum class AddressMode : u8 { Wrap, Clamp, Mirror, Border };
enum class Geometry : u8 { D1, D2, D3, Layered1, Layered2 };

struct Texture {
  char *data = nullptr;
  u64 row_bytes = 0, slice_bytes = 0;
  u32 width = 1, height = 1, depth = 1;  // depth also counts layers
  u32 channels = 1;
  Channel channel = Channel::U8;
  bool linear_memory = false;
  // Of a texture:
  AddressMode mode[3] = {AddressMode::Clamp, AddressMode::Clamp, AddressMode::Clamp};
  bool filter = false;
  bool as_float = false;    // integers become fractions of their range
  bool normalized = false;  // coordinates
  float border[4] = {0, 0, 0, 0};

  u32 element_bytes() const;
};

// Objects that live: kernels may hand over anything.
void register_texture(const Texture *t);
void unregister_texture(const Texture *t);
const Texture *texture_at(u64 handle);
// The same; where there is none (nullptr) the kernel ends.
const Texture *texture_of(Warp &w, const Op &o, u64 handle);

// What a fetch gives: bits of f32, s32 or u32, by the texture.
struct Texel {
  u32 value[4];
};
Texel fetch(const Texture &t, Geometry g, const float *coordinates, u32 layer);
// By whole numbers, without filtering.
Texel fetch_at(const Texture &t, Geometry g, const i32 *coordinates, u32 layer);

// An element of a surface at byte x; nullptr: outside.
char *surface_element(const Texture &t, Geometry g, const i32 *coordinates, u32 bytes);
// Ends the kernel: a surface that traps was used outside.
void report_outside(Warp &w, const Op &o, const i32 *coordinates);

}  // namespace ckpt::softcuda::vm
