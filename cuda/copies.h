// SPDX-License-Identifier: Apache-2.0
//
// Copies of boxes, in the forms in which the driver API describes them (cuMemcpy2D, cuMemcpy3D,
// cuMemcpy3DPeer), and where the bytes of a side are.
#pragma once

#include <cuda.h>

#include <cstring>

#include "common/base/bytes.h"

namespace ckpt::api {

// A box of one slice.
inline CUDA_MEMCPY3D as_3d(const CUDA_MEMCPY2D &c) {
  CUDA_MEMCPY3D d{};
  d.srcXInBytes = c.srcXInBytes;
  d.srcY = c.srcY;
  d.srcMemoryType = c.srcMemoryType;
  d.srcHost = c.srcHost;
  d.srcDevice = c.srcDevice;
  d.srcArray = c.srcArray;
  d.srcPitch = c.srcPitch;
  d.dstXInBytes = c.dstXInBytes;
  d.dstY = c.dstY;
  d.dstMemoryType = c.dstMemoryType;
  d.dstHost = c.dstHost;
  d.dstDevice = c.dstDevice;
  d.dstArray = c.dstArray;
  d.dstPitch = c.dstPitch;
  d.WidthInBytes = c.WidthInBytes;
  d.Height = c.Height;
  d.Depth = 1;
  return d;
}

// The form with contexts has them in the places of two fields that must be null. Addresses are
// unique among all devices, so a copy needs no contexts.
static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D));

inline CUDA_MEMCPY3D without_contexts(const CUDA_MEMCPY3D_PEER &p) {
  CUDA_MEMCPY3D d{};
  std::memcpy(&d, &p, sizeof d);
  d.reserved0 = d.reserved1 = nullptr;
  return d;
}

inline CUDA_MEMCPY3D_PEER with_contexts(const CUDA_MEMCPY3D &d, CUcontext to, CUcontext from) {
  CUDA_MEMCPY3D_PEER p{};
  std::memcpy(&p, &d, sizeof p);
  p.dstContext = to;
  p.srcContext = from;
  return p;
}

// One side of a copy: an array, or linear memory of rows and slices.
struct CopySide {
  CUmemorytype type{};
  CUarray array = nullptr;
  u64 address = 0;  // of linear memory
  u64 x = 0, y = 0, z = 0, level = 0;
  u64 pitch = 0, height = 0;  // as the program says; 0: those of the box

  bool is_array() const { return type == CU_MEMORYTYPE_ARRAY; }
};

inline u64 address_of(CUmemorytype type, const void *host, CUdeviceptr device) {
  return type == CU_MEMORYTYPE_HOST ? reinterpret_cast<u64>(host) : device;
}

inline void set_source(CUDA_MEMCPY3D &d, const CopySide &s) {
  d.srcMemoryType = s.type;
  d.srcArray = s.array;
  d.srcDevice = s.address;
  d.srcXInBytes = s.x;
  d.srcY = s.y;
  d.srcZ = s.z;
  d.srcPitch = s.pitch;
  d.srcHeight = s.height;
}

inline void set_target(CUDA_MEMCPY3D &d, const CopySide &s) {
  d.dstMemoryType = s.type;
  d.dstArray = s.array;
  d.dstDevice = s.address;
  d.dstXInBytes = s.x;
  d.dstY = s.y;
  d.dstZ = s.z;
  d.dstPitch = s.pitch;
  d.dstHeight = s.height;
}

inline CopySide source_of(const CUDA_MEMCPY3D &d) {
  return {d.srcMemoryType, d.srcArray, address_of(d.srcMemoryType, d.srcHost, d.srcDevice),
          d.srcXInBytes,   d.srcY,     d.srcZ,
          d.srcLOD,        d.srcPitch, d.srcHeight};
}

inline CopySide target_of(const CUDA_MEMCPY3D &d) {
  return {d.dstMemoryType, d.dstArray, address_of(d.dstMemoryType, d.dstHost, d.dstDevice),
          d.dstXInBytes,   d.dstY,     d.dstZ,
          d.dstLOD,        d.dstPitch, d.dstHeight};
}

// Where the box lies in linear memory.
struct LinearBox {
  u64 first = 0;           // the address of its first byte
  u64 row = 0, slice = 0;  // distances in bytes
  u64 bytes = 0;           // from its first byte to its last one
};

// Needs a box with bytes, in a side of linear memory.
inline LinearBox linear_box(const CopySide &s, const CUDA_MEMCPY3D &d) {
  LinearBox b;
  b.row = s.pitch != 0 ? s.pitch : s.x + d.WidthInBytes;
  b.slice = b.row * (s.height != 0 ? s.height : s.y + d.Height);
  b.first = s.address + s.z * b.slice + s.y * b.row + s.x;
  b.bytes = (d.Depth - 1) * b.slice + (d.Height - 1) * b.row + d.WidthInBytes;
  return b;
}

inline bool is_empty(const CUDA_MEMCPY3D &d) {
  return d.WidthInBytes == 0 || d.Height == 0 || d.Depth == 0;
}

// "If specified, srcPitch must be greater than or equal to WidthInBytes + srcXInBytes"; "srcLOD and
// dstLOD members must be set to 0" (CUDA driver API, cuMemcpy3D). One row has no next one.
inline bool is_sound(const CopySide &s, const CUDA_MEMCPY3D &d) {
  if (s.level != 0) return false;
  return s.is_array() || d.Height <= 1 || s.pitch == 0 || s.pitch >= s.x + d.WidthInBytes;
}

inline bool is_sound(const CUDA_MEMCPY3D &d) {
  return is_sound(source_of(d), d) && is_sound(target_of(d), d);
}

}  // namespace ckpt::api
