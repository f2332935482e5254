// SPDX-License-Identifier: Apache-2.0
//
// Bytes between the connection and device memory, and from one place of it to another. All copies
// are enqueued in the given stream, and waited for where the program's call waits. Memory of this
// process is pageable, so the driver has read it when a copy to the device returns (CUDA driver
// API, "API synchronization behavior"). Calls of this process itself copy from and to the program's
// memory, without a piece in between.
#include <algorithm>
#include <optional>

#include "cuda/copies.h"
#include "remote/cuda/server/ops.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u64 kMostCopiedBytes = 1ull << 46;

// The stream of a call, and whether it waits.
struct Order {
  CUstream stream = nullptr;
  bool async = false;

  CUresult take(Call &c, bool with_async) {
    u64 number = c.in.get<u64>();
    async = with_async && c.in.get<u8>() != 0;
    c.waits = !async;
    return stream_of(c, number, stream);
  }
  // As a call that the program makes itself, and waits for: drivers copy pageable memory faster
  // then.
  bool is_plain() const { return !async && reinterpret_cast<u64>(stream) <= 1; }
  CUresult end(CUresult e) const {
    return e == CUDA_SUCCESS && !async ? driver().cuStreamSynchronize(stream) : e;
  }
};

Box take_box(Call &c) {
  Box b{};
  if (ByteView bytes = c.in.raw(sizeof b); c.in.ok()) std::memcpy(&b, bytes.data(), sizeof b);
  return b;
}

u64 times(u64 a, u64 b) {
  u64 product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMostCopiedBytes + 1 : product;
}

u64 bytes_of(const Box &b) { return times(times(b.width, b.height), b.depth); }

CUarray array_of(Call &c, const Box &b) {
  return static_cast<CUarray>(c.server.objects.real(Kind::Array, b.array));
}

// Whether the box lies in the program's device memory. Its last byte decides, for rows that do not
// overlap.
bool holds(Call &c, const Box &b) {
  if (b.width == 0 || b.height == 0 || b.depth == 0) return false;
  if (b.array != 0) return array_of(c, b) != nullptr;  // the driver knows how large it is
  if (b.width > kMostCopiedBytes || (b.height > 1 && b.pitch < b.width)) return false;
  u64 last = times(b.slice, b.depth - 1), rows = times(b.pitch, b.height - 1);
  if (last > kMostCopiedBytes || rows > kMostCopiedBytes) return false;
  return c.server.memory.holds(b.address, last + rows + b.width);
}

CUDA_MEMCPY3D shape_of(const Box &b) {
  CUDA_MEMCPY3D d{};
  d.WidthInBytes = b.width;
  d.Height = b.height;
  d.Depth = b.depth;
  return d;
}

// No value: the slices are not so many rows apart, which is how CUDA_MEMCPY3D says it.
std::optional<api::CopySide> side_of(Call &c, const Box &b) {
  if (b.array != 0)
    return api::CopySide{CU_MEMORYTYPE_ARRAY, array_of(c, b), 0, b.address, b.y, b.z};
  api::CopySide s{.type = CU_MEMORYTYPE_DEVICE, .address = b.address};
  s.pitch = b.pitch ? b.pitch : b.width;
  s.height = b.depth > 1 ? b.slice / s.pitch : b.height;
  return b.depth <= 1 || b.slice % s.pitch == 0 ? std::optional(s) : std::nullopt;
}

bool set_source(Call &c, CUDA_MEMCPY3D &d, const Box &b) {
  std::optional<api::CopySide> side = side_of(c, b);
  if (side) api::set_source(d, *side);
  return side.has_value();
}

bool set_target(Call &c, CUDA_MEMCPY3D &d, const Box &b) {
  std::optional<api::CopySide> side = side_of(c, b);
  if (side) api::set_target(d, *side);
  return side.has_value();
}

struct Piece {
  u64 address, bytes;
};

bool take_pieces(Call &c, std::vector<Piece> &out) {
  for (u64 sum = 0; c.in.ok() && c.in.left() > 0;) {
    u64 address = c.in.get<u64>(), bytes = c.in.get<u64>();
    if (bytes > kMostAlongBytes || (sum += bytes) > kMostAlongBytes) return false;
    out.push_back({address, bytes});
    if (out.size() > kMostAlong) return false;
  }
  return c.in.done();
}

// Whether the current context has nothing to do. With many streams it would take too long to say.
bool is_idle(Call &c) {
  constexpr size_t kMostStreams = 64;
  std::vector<void *> streams = c.server.objects.all_of(Kind::Stream);
  if (streams.size() > kMostStreams) return false;
  streams.push_back(CU_STREAM_LEGACY);
  streams.push_back(CU_STREAM_PER_THREAD);
  return std::ranges::all_of(streams, [](void *s) {
    return driver().cuStreamQuery(static_cast<CUstream>(s)) == CUDA_SUCCESS;
  });
}

// An error is not the program's, which has not made these reads.
void read_along(Call &c, const std::vector<Piece> &pieces) {
  if (pieces.empty() || !is_idle(c)) return;
  Bytes all;
  for (const Piece &p : pieces) {
    if (p.bytes == 0 || !c.server.memory.holds(p.address, p.bytes)) return;
    all.resize(all.size() + p.bytes);
    std::byte *to = all.data() + all.size() - p.bytes;
    if (driver().cuMemcpyDtoH_v2(to, p.address, p.bytes) != CUDA_SUCCESS) return;
  }
  c.out.raw(all.data(), all.size());
}

void send_pieces(Call &c, ByteView bytes) {
  for (u64 at = 0; at < bytes.size(); at += kPieceBytes)
    c.give(bytes.subspan(at, std::min<u64>(kPieceBytes, bytes.size() - at)));
}

}  // namespace

CUresult op_write(Call &c) {
  u64 address = c.in.get<u64>();
  Order order;
  CUresult e = order.take(c, true);
  ByteView bytes = c.rest();
  if (e != CUDA_SUCCESS) return e;
  if (bytes.empty() || !c.server.memory.holds(address, bytes.size()))
    return CUDA_ERROR_INVALID_VALUE;
  if (!c.apart.empty() && order.is_plain())
    return driver().cuMemcpyHtoD_v2(address, bytes.data(), bytes.size());
  return order.end(
      driver().cuMemcpyHtoDAsync_v2(address, bytes.data(), bytes.size(), order.stream));
}

CUresult op_read(Call &c) {
  u64 address = c.in.get<u64>(), bytes = c.in.get<u64>();
  Order order;
  CUresult e = order.take(c, false);
  std::vector<Piece> along;
  if (!take_pieces(c, along)) return c.reject();
  if (e != CUDA_SUCCESS) return e;
  if (bytes == 0 || !c.server.memory.holds(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (c.into.size() == bytes) {
    if (!c.header.one_way && order.is_plain())
      return driver().cuMemcpyDtoH_v2(c.into.data(), address, bytes);
    e = driver().cuMemcpyDtoHAsync_v2(c.into.data(), address, bytes, order.stream);
    return c.header.one_way ? e : order.end(e);
  }
  thread_local Bytes piece;
  for (u64 at = 0; at < bytes && e == CUDA_SUCCESS; at += kPieceBytes) {
    piece.resize(std::min(kPieceBytes, bytes - at));
    e = order.end(
        driver().cuMemcpyDtoHAsync_v2(piece.data(), address + at, piece.size(), order.stream));
    if (e == CUDA_SUCCESS) c.give(piece);
  }
  if (e == CUDA_SUCCESS) read_along(c, along);
  return e;
}

CUresult op_copy(Call &c) {
  u64 to = c.in.get<u64>(), from = c.in.get<u64>(), bytes = c.in.get<u64>();
  Order order;
  CUresult e = order.take(c, true);
  if (!c.in.done()) return c.reject();
  if (e != CUDA_SUCCESS) return e;
  if (bytes == 0 || !c.server.memory.holds(to, bytes) || !c.server.memory.holds(from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return order.end(driver().cuMemcpyDtoDAsync_v2(to, from, bytes, order.stream));
}

CUresult op_fill(Call &c) {
  u64 address = c.in.get<u64>(), pitch = c.in.get<u64>();
  u32 value = c.in.get<u32>(), unit = c.in.get<u32>();
  u64 width = c.in.get<u64>(), height = c.in.get<u64>();
  Order order;
  CUresult e = order.take(c, true);
  if (!c.in.done()) return c.reject();
  if (e != CUDA_SUCCESS) return e;
  Box box{address, pitch, 0, times(width, unit), height, 1};
  if (!holds(c, box)) return CUDA_ERROR_INVALID_VALUE;
  const Driver &d = driver();
  if (unit == 1)
    return order.end(d.cuMemsetD2D8Async(address, pitch, static_cast<unsigned char>(value), width,
                                         height, order.stream));
  if (unit == 2)
    return order.end(d.cuMemsetD2D16Async(address, pitch, static_cast<unsigned short>(value), width,
                                          height, order.stream));
  if (unit != 4) return c.reject();
  return order.end(d.cuMemsetD2D32Async(address, pitch, value, width, height, order.stream));
}

CUresult op_write_box(Call &c) {
  Box to = take_box(c);
  Order order;
  CUresult e = order.take(c, true);
  ByteView bytes = c.rest();
  if (e != CUDA_SUCCESS) return e;
  CUDA_MEMCPY3D d = shape_of(to);
  if (!holds(c, to) || bytes_of(to) != bytes.size() || !set_target(c, d, to))
    return CUDA_ERROR_INVALID_VALUE;
  d.srcMemoryType = CU_MEMORYTYPE_HOST;
  d.srcHost = bytes.data();
  d.srcPitch = to.width;
  d.srcHeight = to.height;
  return order.end(driver().cuMemcpy3DAsync_v2(&d, order.stream));
}

CUresult op_read_box(Call &c) {
  Box from = take_box(c);
  Order order;
  CUresult e = order.take(c, false);
  if (!c.in.done()) return c.reject();
  if (e != CUDA_SUCCESS) return e;
  CUDA_MEMCPY3D d = shape_of(from);
  u64 all = bytes_of(from);
  if (!holds(c, from) || all > kMaxBody || !set_source(c, d, from)) return CUDA_ERROR_INVALID_VALUE;
  bool there = c.into.size() == all;
  Bytes packed(there ? 0 : all);
  d.dstMemoryType = CU_MEMORYTYPE_HOST;
  d.dstHost = there ? c.into.data() : packed.data();
  d.dstPitch = from.width;
  d.dstHeight = from.height;
  e = order.end(driver().cuMemcpy3DAsync_v2(&d, order.stream));
  if (e == CUDA_SUCCESS) send_pieces(c, packed);
  return e;
}

CUresult op_copy_box(Call &c) {
  Box to = take_box(c), from = take_box(c);
  Order order;
  CUresult e = order.take(c, true);
  if (!c.in.done()) return c.reject();
  if (e != CUDA_SUCCESS) return e;
  bool same = to.width == from.width && to.height == from.height && to.depth == from.depth;
  CUDA_MEMCPY3D d = shape_of(to);
  if (!same || !holds(c, to) || !holds(c, from) || !set_source(c, d, from) || !set_target(c, d, to))
    return CUDA_ERROR_INVALID_VALUE;
  return order.end(driver().cuMemcpy3DAsync_v2(&d, order.stream));
}

}  // namespace ckpt::remote::cuda
