// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "remote/cuda/server/ops.h"

namespace ckpt::remote::cuda {

CUresult op_mirror(Call &c) {
  u64 base = c.in.get<u64>(), bytes = c.in.get<u64>();
  if (!c.in.done()) return c.reject();
  if (bytes == 0 || !c.server.memory.maps(base, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return c.server.mirrors.begin(c.header.context, base, bytes);
}

CUresult op_end_mirror(Call &c) {
  u64 base = c.in.get<u64>();
  if (!c.in.done()) return c.reject();
  c.server.mirrors.end(base);
  return CUDA_SUCCESS;
}

CUresult op_push(Call &c) {
  std::vector<Mirrors::Range> ranges;
  while (c.in.ok() && c.in.left() > 0) {
    u64 address = c.in.get<u64>();
    ByteView bytes = c.in.raw(c.in.get<u32>());
    if (!c.in.ok()) return c.reject();
    ranges.push_back({address, bytes});
  }
  return c.server.mirrors.write(c.header.context, ranges);
}

CUresult op_fetch(Call &c) {
  u32 gap = c.in.get<u32>();
  if (!c.in.done()) return c.reject();
  Writer changes;
  auto send = [&](u64 least) {
    if (changes.bytes().size() <= least) return;
    c.give(changes.bytes());
    changes = Writer();
  };
  CUresult e = c.server.mirrors.read(c.header.context, gap, [&](u64 address, ByteView bytes) {
    changes.put(address).put(static_cast<u32>(bytes.size())).raw(bytes.data(), bytes.size());
    send(kPieceBytes);
  });
  send(0);
  return e;
}

}  // namespace ckpt::remote::cuda
