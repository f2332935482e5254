// SPDX-License-Identifier: Apache-2.0
//
// The extents that an array may have (CUDA driver API, the tables of cuArray3DCreate and
// cuMipmappedArrayCreate). They are those that the device's attributes say.
#include "softcuda/driver/arrays/array.h"

namespace ckpt::softcuda::driver {
namespace {

enum Kind : u8 { Line, Plane, Volume, Lines, Planes, Cube, Cubes };

// Attributes for the width, the height and the depth or the number of layers. 0: no limit of its
// own.
struct Limits {
  int width, height, depth;
};

#define TEXTURE(name) CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE##name
#define SURFACE(name) CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE##name

constexpr Limits kTexture[] = {
    {TEXTURE(1D_WIDTH), 0, 0},
    {TEXTURE(2D_WIDTH), TEXTURE(2D_HEIGHT), 0},
    {TEXTURE(3D_WIDTH), TEXTURE(3D_HEIGHT), TEXTURE(3D_DEPTH)},
    {TEXTURE(1D_LAYERED_WIDTH), 0, TEXTURE(1D_LAYERED_LAYERS)},
    {TEXTURE(2D_LAYERED_WIDTH), TEXTURE(2D_LAYERED_HEIGHT), TEXTURE(2D_LAYERED_LAYERS)},
    {TEXTURE(CUBEMAP_WIDTH), 0, 0},
    {TEXTURE(CUBEMAP_LAYERED_WIDTH), 0, TEXTURE(CUBEMAP_LAYERED_LAYERS)}};
constexpr Limits kSurface[] = {
    {SURFACE(1D_WIDTH), 0, 0},
    {SURFACE(2D_WIDTH), SURFACE(2D_HEIGHT), 0},
    {SURFACE(3D_WIDTH), SURFACE(3D_HEIGHT), SURFACE(3D_DEPTH)},
    {SURFACE(1D_LAYERED_WIDTH), 0, SURFACE(1D_LAYERED_LAYERS)},
    {SURFACE(2D_LAYERED_WIDTH), SURFACE(2D_LAYERED_HEIGHT), SURFACE(2D_LAYERED_LAYERS)},
    {SURFACE(CUBEMAP_WIDTH), 0, 0},
    {SURFACE(CUBEMAP_LAYERED_WIDTH), 0, SURFACE(CUBEMAP_LAYERED_LAYERS)}};
constexpr Limits kMipmapped[] = {{TEXTURE(1D_MIPMAPPED_WIDTH), 0, 0},
                                 {TEXTURE(2D_MIPMAPPED_WIDTH), TEXTURE(2D_MIPMAPPED_HEIGHT), 0}};

#undef TEXTURE
#undef SURFACE

bool within(const Context &c, size_t extent, int attribute) {
  int most = 0;
  if (attribute == 0) return true;
  (void)cuDeviceGetAttribute(&most, static_cast<CUdevice_attribute>(attribute), c.device->index);
  return extent <= static_cast<size_t>(most);
}

bool within(const Context &c, const CUDA_ARRAY3D_DESCRIPTOR &d, const Limits &l) {
  return within(c, d.Width, l.width) && within(c, d.Height, l.height) &&
         within(c, d.Depth, l.depth);
}

// No value: there is no array of this shape.
std::optional<Kind> kind_of(const CUDA_ARRAY3D_DESCRIPTOR &d) {
  bool layered = (d.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  if (d.Width == 0) return {};
  if ((d.Flags & CUDA_ARRAY3D_CUBEMAP) != 0) {
    bool faces = layered ? d.Depth > 0 && d.Depth % 6 == 0 : d.Depth == 6;
    if (d.Width != d.Height || !faces) return {};
    return layered ? Cubes : Cube;
  }
  if (layered) {
    if (d.Depth == 0) return {};
    return d.Height == 0 ? Lines : Planes;
  }
  if (d.Height == 0 && d.Depth > 0) return {};
  return d.Depth > 0 ? Volume : d.Height > 0 ? Plane : Line;
}

}  // namespace

CUresult check_extents(const Context &c, const CUDA_ARRAY3D_DESCRIPTOR &d, bool mipmapped) {
  std::optional<Kind> kind = kind_of(d);
  REQUIRE(kind, CUDA_ERROR_INVALID_VALUE);
  bool smaller = mipmapped && *kind <= Plane;
  REQUIRE(within(c, d, smaller ? kMipmapped[*kind] : kTexture[*kind]), CUDA_ERROR_INVALID_VALUE);
  bool surface = (d.Flags & CUDA_ARRAY3D_SURFACE_LDST) != 0;
  REQUIRE(!surface || within(c, d, kSurface[*kind]), CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

}  // namespace ckpt::softcuda::driver
