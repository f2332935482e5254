// SPDX-License-Identifier: Apache-2.0
//
// The faces of a cubemap (CUDA C++ Programming Guide, "Cubemap Textures").
#pragma once

#include "softcuda/vm/sample.h"

namespace ckpt::softcuda::vm {

// A direction, or its derivative, in the axes of a face: (s / m, t / m) in [-1, 1] is the place on
// it.
struct OnFace {
  float s, t, m;
};
u32 face_of(const float *direction);
OnFace on_face(u32 face, const float *direction);

// The place on a face where Place::real leads, as Geometry::Cube with the face as the layer and
// coordinates in [0, 1]. `layers`: of the texture, six for each cubemap.
Place place_on_face(const Place &p, u32 layers);

// Linear filtering across the edges of the faces (a seamless cubemap). x: in elements.
Texel filtered_across_edges(const Texture &t, const Level &l, const float *x, u32 layer);

}  // namespace ckpt::softcuda::vm
