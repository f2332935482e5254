// SPDX-License-Identifier: Apache-2.0
//
// Copies of boxes. The rows of the program's memory are packed here, so that only their bytes
// travel.
#include <array>

#include "cuda/copies.h"
#include "remote/cuda/client/copies/arrays.h"
#include "remote/cuda/client/copies/copies.h"
#include "remote/cuda/client/copies/detours.h"
#include "remote/cuda/client/copies/recorder.h"
#include "remote/cuda/client/memory/shared_memory.h"

namespace ckpt::remote::cuda {
namespace {

struct Side {
  bool device;
  Box box;
};

// False: the array has ended.
bool side_of(const api::CopySide &s, const CUDA_MEMCPY3D &c, Side &out) {
  if (s.is_array()) {
    u64 width = c.WidthInBytes, array = number_of(s.array);
    out = {true, {s.x, width, width * c.Height, width, c.Height, c.Depth, array, s.y, s.z}};
    return is_array(array);
  }
  api::CopySide here = s;
  u64 shared = s.type == CU_MEMORYTYPE_DEVICE ? 0 : shared_memory().on_device(s.address, 1);
  if (shared) here.address = shared;
  out.device = shared || s.type == CU_MEMORYTYPE_DEVICE ||
               (s.type == CU_MEMORYTYPE_UNIFIED && memory().is_device(here.address));
  api::LinearBox b = api::linear_box(here, c);
  out.box = {b.first, b.row, b.slice, c.WidthInBytes, c.Height, c.Depth};
  return true;
}

std::byte *row_of(const Box &b, u64 y, u64 z) {
  return reinterpret_cast<std::byte *>(b.address + z * b.slice + y * b.pitch);
}

template <class F>
void for_each_row(const Box &b, F f) {
  u64 at = 0;
  for (u64 z = 0; z < b.depth; z++)
    for (u64 y = 0; y < b.height; y++, at += b.width) f(row_of(b, y, z), at);
}

void put_box(Writer &w, const Box &b) { w.raw(&b, sizeof b); }

CUresult write_packed(const Box &to, ByteView packed, Order order) {
  Writer w;
  put_box(w, to);
  w.put(order.stream).put(u8{order.async});
  return note_error(link().ask(number(Op::WriteBox), current_context(), {w.bytes(), packed}));
}

CUresult read_packed(Bytes &packed, const Box &from, Order order) {
  packed.resize(from.width * from.height * from.depth);
  Writer w;
  put_box(w, from);
  w.put(order.stream);
  return note_error(
      link().ask(number(Op::ReadBox), current_context(), {w.bytes()}, nullptr, packed));
}

CUresult write_box(const Box &to, const Box &from, Order order) {
  if (CUresult e = wait_for_host_functions(order); e != CUDA_SUCCESS) return e;
  Bytes packed(to.width * to.height * to.depth);
  for_each_row(from, [&](const std::byte *row, u64 at) {
    std::memcpy(packed.data() + at, row, from.width);
  });
  return write_packed(to, packed, order);
}

CUresult read_box(const Box &to, const Box &from, Order order) {
  Bytes packed;
  if (CUresult e = read_packed(packed, from, order); e != CUDA_SUCCESS) return e;
  for_each_row(to, [&](std::byte *row, u64 at) { std::memcpy(row, packed.data() + at, to.width); });
  return CUDA_SUCCESS;
}

// To a later row or slice.
void advance(Box &b, u64 n, bool slices) {
  if (b.array != 0)
    (slices ? b.z : b.y) += n;
  else
    b.address += n * (slices ? b.slice : b.pitch);
}

// What is larger than one call may be goes slice by slice, and then row by row.
template <class F>
CUresult in_parts(Box to, Box from, F f) {
  constexpr u64 kMostBytes = 32u << 20;
  u64 slice = to.width * to.height;
  if (slice * to.depth <= kMostBytes) return f(to, from);
  bool slices = to.depth > 1;
  if (!slices && to.height <= 1) return CUDA_ERROR_NOT_SUPPORTED;
  u64 n = slices ? to.depth : to.height;
  u64 per_part = slices ? 1 : std::max<u64>(1, kMostBytes / to.width);
  for (u64 i = 0; i < n; i += per_part) {
    u64 now = std::min(per_part, n - i);
    Box a = to, b = from;
    (slices ? a.depth : a.height) = (slices ? b.depth : b.height) = now;
    advance(a, i, slices);
    advance(b, i, slices);
    if (CUresult e = in_parts(a, b, f); e != CUDA_SUCCESS) return e;
  }
  return CUDA_SUCCESS;
}

CUresult copy_on_host(const Box &to, const Box &from, Order order) {
  if (CUresult e = entry_cuStreamSynchronize(reinterpret_cast<CUstream>(order.stream));
      e != CUDA_SUCCESS)
    return e;
  for (u64 z = 0; z < to.depth; z++)
    for (u64 y = 0; y < to.height; y++)
      std::memmove(row_of(to, y, z), row_of(from, y, z), to.width);
  return CUDA_SUCCESS;
}

u64 context_with(const Box &b) {
  return b.array ? ledger().context_of(b.array).value_or(0) : cuda::context_with(b.address);
}

// Between the two sides of split devices.
CUresult copy_through_program(const Box &to, const Box &from, Order order) {
  CUresult e = entry_cuStreamSynchronize(reinterpret_cast<CUstream>(order.stream));
  if (e != CUDA_SUCCESS) return e;
  u64 context = context_with(to), source = context_with(from);
  return in_parts(to, from, [&](const Box &a, const Box &b) {
    Bytes packed;
    {
      InContext in(source);
      if (CUresult e = read_packed(packed, b, {0, false}); e != CUDA_SUCCESS) return e;
    }
    InContext in(context);
    return write_packed(a, packed, {0, false});
  });
}

// At least one of them is on the device.
CUresult copy_sides(const Side &to, const Side &from, Order order) {
  u64 of_to = to.device ? context_with(to.box) : 0;
  u64 of_from = from.device ? context_with(from.box) : 0;
  if (are_apart(of_to, of_from)) return copy_through_program(to.box, from.box, order);
  auto here = [&](Order o) { return copy_sides(to, from, o); };
  if (auto e = detour(of_to ? of_to : of_from, order, here)) return *e;
  if (!to.device || !from.device)
    return in_parts(to.box, from.box, [&](const Box &a, const Box &b) {
      return to.device ? write_box(a, b, order) : read_box(a, b, order);
    });
  Writer w;
  put_box(w, to.box);
  put_box(w, from.box);
  return ask(Op::CopyBox, w.put(order.stream).put(u8{order.async}));
}

constexpr Order kLegacy{0, false}, kPerThread{2, false};

Order in(CUstream stream) { return {number_of(stream), true}; }

CUresult copy_rows(const CUDA_MEMCPY2D *c, Order order) {
  return c ? copy_box(api::as_3d(*c), order) : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_slices(const CUDA_MEMCPY3D *c, Order order) {
  return c ? copy_box(*c, order) : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_between_contexts(const CUDA_MEMCPY3D_PEER *c, Order order) {
  return c ? copy_box(api::without_contexts(*c), order) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sides_of(const CUDA_MEMCPY3D &c, Side &to, Side &from) {
  if (!api::is_sound(c)) return CUDA_ERROR_INVALID_VALUE;
  bool exist = side_of(api::target_of(c), c, to) && side_of(api::source_of(c), c, from);
  return exist ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

bool is_reachable(const Side &s) {
  const Box &b = s.box;
  if (b.array != 0) return true;
  u64 bytes = (b.depth - 1) * b.slice + (b.height - 1) * b.pitch + b.width;
  return s.device ? memory().holds(b.address, bytes)
                  : b.address != 0 && !memory().is_device(b.address);
}

// Bytes that are behind each other travel in pieces, and one way where nothing can be wrong.
CUresult copy_row(const Side &to, const Side &from, Order order) {
  u64 bytes = to.box.width;
  void *to_host = reinterpret_cast<void *>(to.box.address);
  const void *from_host = reinterpret_cast<const void *>(from.box.address);
  if (to.device && from.device)
    return copy_on_device(to.box.address, from.box.address, bytes, order);
  return to.device ? write_device(to.box.address, from_host, bytes, order)
                   : read_device(to_host, from.box.address, bytes, order);
}

}  // namespace

CUresult check_box(const CUDA_MEMCPY3D &c) {
  Side to{}, from{};
  if (api::is_empty(c)) return CUDA_SUCCESS;
  if (CUresult e = sides_of(c, to, from); e != CUDA_SUCCESS) return e;
  return is_reachable(to) && is_reachable(from) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_box(const CUDA_MEMCPY3D &c, Order order) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (api::is_empty(c)) return CUDA_SUCCESS;
  Side to{}, from{};
  if (CUresult e = sides_of(c, to, from); e != CUDA_SUCCESS) return e;
  if (Recorder *r = recorder_of(order.stream)) return r->copy_box(order.stream, !order.async, c);
  if (!to.device && !from.device) return copy_on_host(to.box, from.box, order);
  bool arrays = to.box.array != 0 || from.box.array != 0;
  if (c.Height == 1 && c.Depth == 1 && !arrays) return copy_row(to, from, order);
  if (CUresult e = shared_memory().before_work(order.stream); e != CUDA_SUCCESS) return e;
  CUresult e = copy_sides(to, from, order);
  bool waited = !order.async || !to.device;
  return e == CUDA_SUCCESS && waited ? shared_memory().after_wait(order.stream) : e;
}

CUresult entry_cuMemcpy2D_v2(const CUDA_MEMCPY2D *c) { return copy_rows(c, kLegacy); }
CUresult entry_cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *c) { return copy_rows(c, kPerThread); }
CUresult entry_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c) { return copy_rows(c, kLegacy); }
CUresult entry_cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *c) {
  return copy_rows(c, kPerThread);
}
CUresult entry_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream s) {
  return copy_rows(c, in(s));
}
CUresult entry_cuMemcpy3D_v2(const CUDA_MEMCPY3D *c) { return copy_slices(c, kLegacy); }
CUresult entry_cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *c) { return copy_slices(c, kPerThread); }
CUresult entry_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *c) {
  return copy_between_contexts(c, kLegacy);
}
CUresult entry_cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *c) {
  return copy_between_contexts(c, kPerThread);
}
CUresult entry_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *c, CUstream s) {
  return copy_between_contexts(c, in(s));
}
CUresult entry_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream s) {
  return copy_slices(c, in(s));
}

}  // namespace ckpt::remote::cuda
