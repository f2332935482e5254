// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/streams/submit.h"

#include <algorithm>
#include <iterator>

#include "cuda/copies.h"
#include "softcuda/driver/graphs/capture.h"

namespace ckpt::softcuda::driver {
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

}  // namespace ckpt::softcuda::driver
