// SPDX-License-Identifier: Apache-2.0
//
// The program's bytes are read when a copy is enqueued, as the driver reads pageable memory. A
// program could notice only if something that it has enqueued before writes to these bytes: a host
// function, so a copy waits for those. Copies to the program's memory are waited for, except by a
// driver in this process (native.h).
//
// Which copies need no wait of the program (CUDA driver API, "API synchronization behavior"):
//   fills of device memory, and copies within it   none of the host at all, but those in a program
//                                                  with several contexts: they are in the order of
//                                                  each context that they touch, and the driver's
//                                                  streams order only the current one's work
//   copies to the device that wait                 the server waits for them, before it makes the
//                                                  thread's next call; the program need not, if its
//                                                  other threads have no calls that must begin
//                                                  meanwhile, no host function is to run, and no
//                                                  memory is shared with a device
#include "remote/cuda/client/copies/copies.h"

#include <algorithm>

#include "remote/cuda/client/copies/detours.h"
#include "remote/cuda/client/copies/last_wait.h"
#include "remote/cuda/client/copies/read_ahead.h"
#include "remote/cuda/client/copies/recorder.h"
#include "remote/cuda/client/link/native.h"
#include "remote/cuda/client/memory/shared_memory.h"

namespace ckpt::remote::cuda {
namespace {

CUresult send_piece(u64 to, ByteView bytes, Order order, bool one_way) {
  Writer w;
  w.put(to).put(order.stream).put(u8{order.async});
  Link::Parts parts{w.bytes(), bytes};
  u16 op = number(Op::Write);
  if (!one_way) return note_error(link().ask(op, current_context(), parts));
  link().send(op, current_context(), parts);
  return CUDA_SUCCESS;
}

// A copy or fill between memory that both sides share needs what the program has changed there.
CUresult before_copy(u64 to, u64 from, u64 bytes, Order order) {
  bool uses =
      shared_memory().uses(to, to ? bytes : 0) || shared_memory().uses(from, from ? bytes : 0);
  return uses ? shared_memory().before_work(order.stream) : CUDA_SUCCESS;
}

// Of a fill, or a copy on devices.
bool must_wait(Order order) {
  return !order.async && (shared_memory().any() || ledger().has_several_contexts());
}

CUresult after_copy(CUresult e, Order order) {
  return e == CUDA_SUCCESS && !order.async ? shared_memory().after_wait(order.stream) : e;
}

}  // namespace

bool can_wait_there() {
  return !link().native_at(current_context()) && link().is_only_lane() &&
         !link().expects_host_calls() && !shared_memory().any();
}

CUresult wait_for_host_functions(Order order) {
  if (!link().expects_host_calls()) return CUDA_SUCCESS;
  return entry_cuStreamSynchronize(reinterpret_cast<CUstream>(order.stream));
}

CUresult write_device(u64 to, const void *from, u64 bytes, Order order) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (bytes == 0) return CUDA_SUCCESS;
  if (u64 shared = shared_memory().on_device(number_of(from), bytes))
    return copy_on_device(to, shared, bytes, order);
  if (!from || memory().is_device(number_of(from))) return CUDA_ERROR_INVALID_VALUE;
  if (Recorder *r = recorder_of(order.stream))
    return r->copy(order.stream, !order.async, to, number_of(from), bytes);
  auto here = [&](Order o) { return write_device(to, from, bytes, o); };
  if (auto e = detour(context_with(to), order, here)) return *e;
  if (CUresult e = wait_for_host_functions(order); e != CUDA_SUCCESS) return e;
  if (CUresult e = before_copy(to, 0, bytes, order); e != CUDA_SUCCESS) return e;
  bool certain = memory().holds(to, bytes) && can_send(order.stream);
  bool one_way = certain && (order.async || can_wait_there());
  u64 piece = link().native_at(current_context()) ? bytes : kPieceBytes;
  for (u64 at = 0; at < bytes; at += piece) {
    u64 n = std::min(piece, bytes - at);
    bool last = at + n == bytes;
    Order this_one{order.stream, order.async || (certain && !last)};
    CUresult e = send_piece(to + at, view(static_cast<const std::byte *>(from) + at, n), this_one,
                            one_way || this_one.async);
    if (e != CUDA_SUCCESS) return e;
  }
  return after_copy(CUDA_SUCCESS, order);
}

namespace {

CUresult ask_for_bytes(void *to, const DeviceRange &r, u64 stream,
                       std::span<const DeviceRange> along, Bytes *bytes_along) {
  Writer w;
  w.put(r.address).put(r.bytes).put(stream);
  for (const DeviceRange &a : along) w.put(a.address).put(a.bytes);
  return note_error(link().ask(number(Op::Read), current_context(), {w.bytes()}, bytes_along,
                               std::span(static_cast<std::byte *>(to), r.bytes)));
}

CUresult read_with_others(void *to, const DeviceRange &r, u64 stream) {
  if (read_ahead().take(r, link().calls(), to)) return CUDA_SUCCESS;
  std::vector<DeviceRange> along = read_ahead().behind(r);
  Bytes bytes;
  CUresult e = ask_for_bytes(to, r, stream, along, &bytes);
  if (e != CUDA_SUCCESS) return e;
  read_ahead().keep(link().calls(), std::move(along), std::move(bytes));
  last_wait().note(current_context(), stream, link().calls());
  return CUDA_SUCCESS;
}

}  // namespace

CUresult read_device(void *to, u64 from, u64 bytes, Order order) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (bytes == 0) return CUDA_SUCCESS;
  if (u64 shared = shared_memory().on_device(number_of(to), bytes))
    return copy_on_device(shared, from, bytes, order);
  if (!to || memory().is_device(number_of(to))) return CUDA_ERROR_INVALID_VALUE;
  if (Recorder *r = recorder_of(order.stream))
    return r->copy(order.stream, !order.async, number_of(to), from, bytes);
  auto here = [&](Order o) { return read_device(to, from, bytes, o); };
  if (auto e = detour(context_with(from), order, here)) return *e;
  if (CUresult e = before_copy(0, from, bytes, order); e != CUDA_SUCCESS) return e;
  Native *native = link().native_at(current_context());
  if (native && order.async && !shared_memory().is_used())
    return note_error(native->read_later(current_context(), to, from, bytes, order.stream));
  if (can_wait_there() && !ledger().has_several_contexts())
    return read_with_others(to, {from, bytes}, order.stream);
  CUresult e = ask_for_bytes(to, {from, bytes}, order.stream, {}, nullptr);
  return after_copy(e, {order.stream, false});
}

CUresult copy_between(u64 to, CUcontext of, u64 from, CUcontext source, u64 bytes, Order order) {
  for (u64 context : {number_of(of), number_of(source)})
    if (context != current_context() && ledger().lives(context))
      if (CUresult e = settle(context); e != CUDA_SUCCESS) return e;
  return copy_on_device(to, from, bytes, order);
}

CUresult copy_on_device(u64 to, u64 from, u64 bytes, Order order) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (bytes == 0) return CUDA_SUCCESS;
  if (Recorder *r = recorder_of(order.stream))
    return r->copy(order.stream, !order.async, to, from, bytes);
  u64 there = context_with(to);
  if (are_apart(there, context_with(from))) return copy_through_program(to, from, bytes, order);
  auto here = [&](Order o) { return copy_on_device(to, from, bytes, o); };
  if (auto e = detour(there, order, here)) return *e;
  if (CUresult e = before_copy(to, from, bytes, order); e != CUDA_SUCCESS) return e;
  Writer w;
  bool waits = must_wait(order);
  w.put(to).put(from).put(bytes).put(order.stream).put(u8{!waits});
  bool certain = memory().holds(to, bytes) && memory().holds(from, bytes);
  if (!certain || waits || !can_send(order.stream)) return after_copy(ask(Op::Copy, w), order);
  link().send(number(Op::Copy), current_context(), {w.bytes()});
  return CUDA_SUCCESS;
}

CUresult copy(u64 to, u64 from, u64 bytes, Order order) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (u64 shared = shared_memory().on_device(to, bytes)) to = shared;
  if (u64 shared = shared_memory().on_device(from, bytes)) from = shared;
  bool to_device = memory().is_device(to), from_device = memory().is_device(from);
  if (to_device && from_device) return copy_on_device(to, from, bytes, order);
  if (to_device) return write_device(to, reinterpret_cast<void *>(from), bytes, order);
  if (from_device) return read_device(reinterpret_cast<void *>(to), from, bytes, order);
  if (Recorder *r = bytes > 0 ? recorder_of(order.stream) : nullptr)
    return r->copy(order.stream, !order.async, to, from, bytes);
  if (CUresult e = entry_cuStreamSynchronize(reinterpret_cast<CUstream>(order.stream));
      e != CUDA_SUCCESS)
    return e;
  if (bytes > 0) std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
  return CUDA_SUCCESS;
}

void send_bytes(u64 to, ByteView bytes, u64 context) {
  for (u64 at = 0; at < bytes.size(); at += kPieceBytes) {
    Writer w;
    w.put(to + at).put(u64{0}).put(u8{1});
    ByteView piece = bytes.subspan(at, std::min<u64>(kPieceBytes, bytes.size() - at));
    link().send(number(Op::Write), context, {w.bytes(), piece});
  }
}

void send_zeros(u64 to, u64 bytes, u64 context) {
  Writer w;
  w.put(to).put(bytes).put(u32{0}).put(u32{1}).put(bytes).put(u64{1}).put(u64{0}).put(u8{1});
  link().send(number(Op::Fill), context, {w.bytes()});
}

CUresult fill(u64 address, u64 pitch, u32 value, u32 unit, u64 width, u64 height, Order order) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  constexpr u64 kMost = 1ull << 46;
  if (width > kMost || height > kMost || pitch > kMost) return CUDA_ERROR_INVALID_VALUE;
  if (Recorder *r = recorder_of(order.stream))
    return r->fill(order.stream, !order.async, {address, pitch, value, unit, width, height});
  auto here = [&](Order o) { return fill(address, pitch, value, unit, width, height, o); };
  if (auto e = detour(context_with(address), order, here)) return *e;
  u64 row = height > 1 ? pitch : width * unit;
  bool waits = must_wait(order);
  bool certain = !waits && address % unit == 0 && row % unit == 0 && width * unit <= row &&
                 can_send(order.stream) && height <= kMost / row &&
                 memory().holds(address, row * (height - 1) + width * unit);
  u64 all = height <= kMost / row ? row * (height - 1) + width * unit : 0;
  if (CUresult e = before_copy(address, 0, all, order); e != CUDA_SUCCESS) return e;
  Writer w;
  w.put(address).put(row).put(value).put(unit).put(width).put(height);
  w.put(order.stream).put(u8{!waits});
  if (!certain) return after_copy(ask(Op::Fill, w), order);
  link().send(number(Op::Fill), current_context(), {w.bytes()});
  return CUDA_SUCCESS;
}

}  // namespace ckpt::remote::cuda
