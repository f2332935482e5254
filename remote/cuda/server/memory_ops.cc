// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/ops.h"

namespace ckpt::remote::cuda {

CUresult op_arena(Call &c) {
  u64 base = c.in.get<u64>(), bytes = c.in.get<u64>(), got = 0;
  if (!c.in.done()) return c.reject();
  CUresult e = c.server.memory.reserve(base, bytes, got);
  c.out.put(got);
  return e;
}

CUresult op_map(Call &c) {
  u64 base = c.in.get<u64>(), bytes = c.in.get<u64>();
  i32 device = c.in.get<i32>();
  return c.in.done() ? c.server.memory.map(base, bytes, c.server.devices.real(device)) : c.reject();
}

CUresult op_unmap(Call &c) {
  u64 base = c.in.get<u64>(), bytes = c.in.get<u64>();
  if (!c.in.done()) return c.reject();
  c.server.mirrors.end_within(base, bytes);
  return c.server.memory.unmap(base, bytes);
}

CUresult op_make_memory(Call &c) {
  u64 number = c.in.get<u64>(), bytes = c.in.get<u64>();
  i32 device = c.in.get<i32>();
  if (!c.in.done() || kind_of(number) != Kind::Memory) return c.reject();
  return c.server.memory.make_physical(number, bytes, c.server.devices.real(device));
}

CUresult op_end_memory(Call &c) {
  u64 number = c.in.get<u64>();
  return c.in.done() ? c.server.memory.end_physical(number) : c.reject();
}

CUresult op_map_memory(Call &c) {
  u64 base = c.in.get<u64>(), bytes = c.in.get<u64>(), number = c.in.get<u64>();
  return c.in.done() ? c.server.memory.map_physical(base, bytes, number) : c.reject();
}

CUresult op_unmap_memory(Call &c) {
  u64 base = c.in.get<u64>(), bytes = c.in.get<u64>();
  if (!c.in.done()) return c.reject();
  c.server.mirrors.end_within(base, bytes);
  return c.server.memory.unmap_physical(base, bytes);
}

CUresult op_set_access(Call &c) {
  u64 base = c.in.get<u64>(), bytes = c.in.get<u64>();
  i32 device = c.in.get<i32>();
  u32 flags = c.in.get<u32>();
  if (!c.in.done()) return c.reject();
  return c.server.memory.set_access(base, bytes, c.server.devices.real(device), flags);
}

CUresult op_settle(Call &c) {
  c.waits = true;
  return c.in.done() ? driver().cuCtxSynchronize() : c.reject();
}

CUresult op_idle(Call &c) {
  if (!c.in.done()) return c.reject();
  CUresult e = c.header.context ? driver().cuCtxSynchronize() : CUDA_SUCCESS;
  c.out.put(static_cast<i32>(c.server.late_error()));
  return e;
}

}  // namespace ckpt::remote::cuda
