// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/transfer.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "softcuda/driver/capture.h"

namespace ckpt::softcuda::driver {
namespace {

u64 address(const void *p) { return reinterpret_cast<u64>(p); }

// One side of a copy, as in CUDA_MEMCPY2D and CUDA_MEMCPY3D.
struct Side {
  CUmemorytype type;
  const void *host;
  CUdeviceptr device;
  CUarray array;
  u64 x, y, z, lod;
  u64 pitch, height;
};

CUresult resolve_side(const Side &s, u64 width, u64 rows, u64 slices, char *&at, u64 &row,
                      u64 &slice, bool &pageable) {
  if (s.type == CU_MEMORYTYPE_ARRAY) {
    const Array *a = process().arrays.get(s.array);
    REQUIRE(a != nullptr, CUDA_ERROR_INVALID_HANDLE);
    u64 height = std::max<u64>(a->desc.Height, 1), depth = std::max<u64>(a->desc.Depth, 1);
    REQUIRE(s.x + width <= a->desc.Width * a->element_bytes && s.y + rows <= height &&
                s.z + slices <= depth,
            CUDA_ERROR_INVALID_VALUE);
    row = a->row_bytes;
    slice = a->slice_bytes;
    pageable = false;
    at = process().memory->host(a->base, 1) + s.z * slice + s.y * row + s.x;
    return CUDA_SUCCESS;
  }
  u64 base = s.type == CU_MEMORYTYPE_HOST ? address(s.host) : s.device;
  row = s.pitch != 0 ? s.pitch : s.x + width;
  REQUIRE(rows <= 1 || row >= s.x + width, CUDA_ERROR_INVALID_VALUE);
  u64 height = s.height != 0 ? s.height : s.y + rows;
  slice = row * height;
  u64 first = base + s.z * slice + s.y * row + s.x;
  u64 bytes = (slices - 1) * slice + (rows - 1) * row + width;
  return resolve(first, bytes, at, pageable) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
  if (c != nullptr) spend_copy_time(*c, b.width * b.height * b.depth);
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

namespace {

// The device that the memory of one side belongs to, one bit; 0: the host, or managed memory.
u32 device_bit(CUmemorytype type, CUarray array, CUdeviceptr device, const void *host) {
  if (type == CU_MEMORYTYPE_ARRAY) {
    const Array *a = process().arrays.get(array);
    return a == nullptr ? 0 : 1u << a->context->device->index;
  }
  std::optional<Allocation> a =
      process().memory->find(type == CU_MEMORYTYPE_HOST ? address(host) : device);
  bool on_host = !a || a->kind == MemoryKind::Pinned || a->kind == MemoryKind::Registered ||
                 a->kind == MemoryKind::Managed;
  return on_host ? 0 : 1u << a->device;
}

u32 devices_of(const CUDA_MEMCPY3D &d) {
  return device_bit(d.srcMemoryType, d.srcArray, d.srcDevice, d.srcHost) |
         device_bit(d.dstMemoryType, d.dstArray, d.dstDevice, d.dstHost);
}

std::vector<Context *> contexts_on(u32 devices) {
  std::vector<Context *> list;
  for (Context *c : process().contexts.all())
    if ((devices & 1u << c->device->index) != 0 && !c->inactive) list.push_back(c);
  return list;
}

// The contexts whose work a copy is serialized with, beside the rules of its stream.
//
// A copy in the default stream that uses the memory of another device "does not start until all
// commands previously issued to either device have completed and runs to completion before any
// commands issued after the copy to either device can start"; in other streams copies between
// devices may overlap with all else (CUDA C++ programming guide, Peer-to-Peer Memory Copy).
std::vector<Context *> serialized_with(const Stream &s, const Box &b, bool peer) {
  if (!peer && !s.legacy) return {};
  u32 here = 1u << s.context->device->index, devices = devices_of(b.described);
  if ((devices & ~here) == 0) return {};
  return contexts_on(devices | here);
}

}  // namespace

CUresult submit(Context *c, CUstream stream, Box b, bool wait, bool peer) {
  Stream *s = stream_of(c, stream);
  REQUIRE(s != nullptr, CUDA_ERROR_INVALID_HANDLE);
  if (b.width == 0 || b.height == 0 || b.depth == 0) return CUDA_SUCCESS;
  if (std::shared_ptr<Capture> capture = capture_of(*s)) {
    REQUIRE(!wait, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return capture_box(*capture, *s, b);
  }
  std::shared_ptr<std::vector<char>> staged;
  if (b.src_pageable && !wait) {
    staged = std::make_shared<std::vector<char>>(b.width * b.height * b.depth);
    Box in = b;
    in.dst = staged->data();
    in.dst_row = b.width;
    in.dst_slice = b.width * b.height;
    run(in);
    b.src = staged->data();
    b.src_row = in.dst_row;
    b.src_slice = in.dst_slice;
  }
  std::vector<Context *> others = serialized_with(*s, b, peer);
  std::vector<Point> after;
  for (Context *other : others) std::ranges::move(other->all_points(), std::back_inserter(after));
  Point done = s->context->submit(
      *s, [c = s->context, b, staged] { run(c, b); }, std::move(after));
  for (Context *other : others) other->hold_behind(done);
  if (wait || b.dst_pageable) {
    done.wait();
    c->show_printed();
    return c->error;
  }
  return CUDA_SUCCESS;
}

CUresult submit(Context *c, CUstream stream, const Fill &f, bool wait) {
  Stream *s = stream_of(c, stream);
  REQUIRE(s != nullptr, CUDA_ERROR_INVALID_HANDLE);
  if (f.width == 0 || f.height == 0) return CUDA_SUCCESS;
  if (std::shared_ptr<Capture> capture = capture_of(*s)) return capture_fill(*capture, *s, f);
  Point done = s->context->submit(*s, [f] { run(f); });
  if (wait) done.wait();
  return wait ? c->error.load() : CUDA_SUCCESS;
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
  if (b.width == 0 || b.height == 0 || b.depth == 0) return CUDA_SUCCESS;
  REQUIRE(d.srcLOD == 0 && d.dstLOD == 0, CUDA_ERROR_INVALID_VALUE);
  Side src{d.srcMemoryType, d.srcHost, d.srcDevice, d.srcArray, d.srcXInBytes,
           d.srcY,          d.srcZ,    0,           d.srcPitch, d.srcHeight};
  Side dst{d.dstMemoryType, d.dstHost, d.dstDevice, d.dstArray, d.dstXInBytes,
           d.dstY,          d.dstZ,    0,           d.dstPitch, d.dstHeight};
  char *from = nullptr;
  CHECK_CU(
      resolve_side(src, b.width, b.height, b.depth, from, b.src_row, b.src_slice, b.src_pageable));
  b.src = from;
  return resolve_side(dst, b.width, b.height, b.depth, b.dst, b.dst_row, b.dst_slice,
                      b.dst_pageable);
}

CUresult box_of(const CUDA_MEMCPY2D &d, Box &b) {
  CUDA_MEMCPY3D t{};
  t.srcXInBytes = d.srcXInBytes;
  t.srcY = d.srcY;
  t.srcMemoryType = d.srcMemoryType;
  t.srcHost = d.srcHost;
  t.srcDevice = d.srcDevice;
  t.srcArray = d.srcArray;
  t.srcPitch = d.srcPitch;
  t.dstXInBytes = d.dstXInBytes;
  t.dstY = d.dstY;
  t.dstMemoryType = d.dstMemoryType;
  t.dstHost = d.dstHost;
  t.dstDevice = d.dstDevice;
  t.dstArray = d.dstArray;
  t.dstPitch = d.dstPitch;
  t.WidthInBytes = d.WidthInBytes;
  t.Height = d.Height;
  t.Depth = 1;
  return box_of(t, b);
}

}  // namespace ckpt::softcuda::driver
