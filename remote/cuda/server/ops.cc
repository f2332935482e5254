// SPDX-License-Identifier: Apache-2.0
//
// Calls that are no line of cuda.api (protocol.h).
#include <array>

#include "remote/cuda/server/ops.h"

namespace ckpt::remote::cuda {
namespace {

constexpr size_t kFirst = static_cast<size_t>(Op::First);
constexpr size_t kOps = static_cast<size_t>(Op::Last) - kFirst;

// The driver may give the addresses of what has ended to new objects.
CUresult op_emptied(Call &c) {
  u64 context = c.in.get<u64>();
  if (!c.in.done() || kind_of(context) != Kind::Context) return c.reject();
  c.emptied = context;
  return CUDA_SUCCESS;
}

std::array<Handler, kOps> ops() {
  std::array<Handler, kOps> all{};
  auto set = [&](Op op, Handler h) { all[static_cast<size_t>(op) - kFirst] = h; };
  set(Op::Arena, op_arena);
  set(Op::Map, op_map);
  set(Op::Unmap, op_unmap);
  set(Op::Code, op_code);
  set(Op::Load, op_load);
  set(Op::Global, op_global);
  set(Op::Parameters, op_parameters);
  set(Op::Launch, op_launch);
  set(Op::Write, op_write);
  set(Op::Read, op_read);
  set(Op::Copy, op_copy);
  set(Op::Fill, op_fill);
  set(Op::WriteBox, op_write_box);
  set(Op::ReadBox, op_read_box);
  set(Op::CopyBox, op_copy_box);
  set(Op::HostCall, op_host_call);
  set(Op::Settle, op_settle);
  set(Op::Idle, op_idle);
  set(Op::Mirror, op_mirror);
  set(Op::EndMirror, op_end_mirror);
  set(Op::Push, op_push);
  set(Op::Fetch, op_fetch);
  set(Op::MakeArray, op_make_array);
  set(Op::MakeTexture, op_make_texture);
  set(Op::EndTexture, op_end_texture);
  set(Op::Link, op_link);
  set(Op::MakeTextureAt, op_make_texture_at);
  set(Op::EndTextureAt, op_end_texture_at);
  set(Op::StreamValue, op_stream_value);
  set(Op::MakeMemory, op_make_memory);
  set(Op::EndMemory, op_end_memory);
  set(Op::MapMemory, op_map_memory);
  set(Op::UnmapMemory, op_unmap_memory);
  set(Op::SetAccess, op_set_access);
  set(Op::ReadChanged, op_read_changed);
  set(Op::Emptied, op_emptied);
  set(Op::MakeMipmap, op_make_mipmap);
  set(Op::MipmapLevel, op_mipmap_level);
  return all;
}

}  // namespace

Handler op_handler(u16 op) {
  static const std::array<Handler, kOps> kAll = ops();
  return op >= kFirst && op < kFirst + kOps ? kAll[op - kFirst] : nullptr;
}

CUresult stream_of(Call &c, u64 number, CUstream &out) {
  out = number <= kSpecialStreams
            ? reinterpret_cast<CUstream>(number)
            : static_cast<CUstream>(c.server.objects.real(Kind::Stream, number));
  return out || number == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace ckpt::remote::cuda
