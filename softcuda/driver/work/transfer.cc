// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/work/transfer.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

#include "cuda/arrays.h"
#include "cuda/copies.h"

namespace ckpt::softcuda::driver {
namespace {

CUresult resolve_side(const api::CopySide &s, const CUDA_MEMCPY3D &d, char *&at, u64 &row,
                      u64 &slice, bool &pageable) {
  if (s.is_array()) {
    const Array *a = process().arrays.get(s.array);
    REQUIRE(a != nullptr, CUDA_ERROR_INVALID_HANDLE);
    api::ArrayShape shape(a->desc);
    REQUIRE(s.x + d.WidthInBytes <= shape.row_bytes && s.y + d.Height <= shape.rows &&
                s.z + d.Depth <= shape.slices,
            CUDA_ERROR_INVALID_VALUE);
    row = shape.row_bytes;
    slice = shape.slice_bytes();
    pageable = false;
    at = process().memory->host(a->base, 1) + s.z * slice + s.y * row + s.x;
    return CUDA_SUCCESS;
  }
  api::LinearBox b = api::linear_box(s, d);
  row = b.row;
  slice = b.slice;
  return resolve(b.first, b.bytes, at, pageable) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// The device that has one side of a copy in its memory, or none.
std::optional<u32> device_of(const api::CopySide &s) {
  u64 at = s.address;
  if (s.is_array()) {
    const Array *a = process().arrays.get(s.array);
    if (a == nullptr) return std::nullopt;
    at = a->base;
  }
  std::optional<Allocation> found = process().memory->find(at);
  if (!found) return std::nullopt;
  switch (found->kind) {
    case MemoryKind::Device:
    case MemoryKind::Mapping:
    case MemoryKind::Pool:
    case MemoryKind::Imported: return found->device;
    default: return std::nullopt;
  }
}

// Only such a copy does without the bus.
bool stays_on_a_device(const Box &b) {
  if (b.src_pageable || b.dst_pageable) return false;
  std::optional<u32> from = device_of(api::source_of(b.described));
  return from.has_value() && from == device_of(api::target_of(b.described));
}

}  // namespace

bool resolve(u64 p, u64 bytes, char *&host, bool &pageable) {
  Memory &memory = *process().memory;
  pageable = false;
  host = memory.host(p, bytes);
  if (host != nullptr) return true;
  if (p == 0 || memory.find(p) || memory.in_window(p)) return false;
  host = reinterpret_cast<char *>(p);
  pageable = true;
  return true;
}

void run(Context *c, const Box &b) {
  run(b);
  if (c != nullptr && process().model) {
    spend_copy_time(*c, b.width * b.height * b.depth, stays_on_a_device(b));
  }
}

void run(const Box &b) {
  DeviceAccess access;
  if (b.height * b.depth == 1) process().memory->populate(b.dst, b.width);
  for (u64 z = 0; z < b.depth; ++z)
    for (u64 y = 0; y < b.height; ++y)
      std::memmove(b.dst + z * b.dst_slice + y * b.dst_row, b.src + z * b.src_slice + y * b.src_row,
                   b.width);
}

void run(const Fill &f) {
  DeviceAccess access;
  if (f.height == 1) process().memory->populate(f.dst, f.width * f.element);
  for (u64 y = 0; y < f.height; ++y) {
    char *row = f.dst + y * f.row;
    if (f.element == 1) {
      std::memset(row, static_cast<int>(f.value), f.width);
      continue;
    }
    for (u64 x = 0; x < f.width; ++x) std::memcpy(row + x * f.element, &f.value, f.element);
  }
}

CUresult linear(u64 dst, u64 src, u64 bytes, Box &b) {
  char *from = nullptr;
  b.width = bytes;
  b.described.dstMemoryType = b.described.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  b.described.dstDevice = dst;
  b.described.srcDevice = src;
  b.described.dstPitch = b.described.srcPitch = b.described.WidthInBytes = bytes;
  b.described.Height = b.described.Depth = 1;
  if (bytes == 0) return CUDA_SUCCESS;
  REQUIRE(resolve(dst, bytes, b.dst, b.dst_pageable) && resolve(src, bytes, from, b.src_pageable),
          CUDA_ERROR_INVALID_VALUE);
  b.src = from;
  return CUDA_SUCCESS;
}

CUresult box_of(const CUDA_MEMCPY3D &d, Box &b) {
  b.width = d.WidthInBytes;
  b.height = d.Height;
  b.depth = d.Depth;
  b.described = d;
  if (api::is_empty(d)) return CUDA_SUCCESS;
  REQUIRE(api::is_sound(d), CUDA_ERROR_INVALID_VALUE);
  char *from = nullptr;
  CHECK_CU(resolve_side(api::source_of(d), d, from, b.src_row, b.src_slice, b.src_pageable));
  b.src = from;
  return resolve_side(api::target_of(d), d, b.dst, b.dst_row, b.dst_slice, b.dst_pageable);
}

}  // namespace ckpt::softcuda::driver
