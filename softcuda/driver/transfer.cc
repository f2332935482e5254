// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/transfer.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "cuda/arrays.h"
#include "cuda/copies.h"
#include "softcuda/driver/capture.h"

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
  std::optional<Allocation> a = process().memory->find(api::address_of(type, host, device));
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
  if (api::is_empty(d)) return CUDA_SUCCESS;
  REQUIRE(api::is_sound(d), CUDA_ERROR_INVALID_VALUE);
  char *from = nullptr;
  CHECK_CU(resolve_side(api::source_of(d), d, from, b.src_row, b.src_slice, b.src_pageable));
  b.src = from;
  return resolve_side(api::target_of(d), d, b.dst, b.dst_row, b.dst_slice, b.dst_pageable);
}

}  // namespace ckpt::softcuda::driver
