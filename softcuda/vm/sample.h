// SPDX-License-Identifier: Apache-2.0
//
// What reads one level of a texture. The coordinates on a face of a cubemap are those of
// Geometry::Cube with the face as the layer (cube.h).
#pragma once

#include "softcuda/vm/texture.h"

namespace ckpt::softcuda::vm {

// One element; `f` is valid if the texture gives floats.
struct Sample {
  float f[4];
  u32 bits[4];
};

// Of one layer or face.
u32 axes_of(Geometry g);

// At integer coordinates, to which the addressing modes apply.
Sample sample(const Texture &t, const Level &l, Geometry g, const i64 *at, u32 layer);
// At Place::real.
Texel fetch_level(const Texture &t, const Level &l, const Place &p);

}  // namespace ckpt::softcuda::vm
