// SPDX-License-Identifier: Apache-2.0
//
// Addresses of shared memory in other blocks of a cluster, and the cluster's barrier (PTX ISA,
// "mapa", "getctarank", "barrier.cluster"). The bits of an address above kRankShift hold the
// block's rank plus one; zero stands for the own block.
#include "softcuda/isa/place.h"

namespace ckpt::softcuda::isa::any {
namespace {

u32 mapped(u32 address, u32 rank) {
  return (address & ((1u << vm::kRankShift) - 1)) | (rank + 1) << vm::kRankShift;
}
u64 mapped_generic(u64 address, u32 rank) {
  return vm::kSharedWindow + mapped(static_cast<u32>(address), rank);
}

template <class T>
void rank_of(Warp &w, const Op &o, Mask m) {
  In<T> a(w, o.a);
  u32 *out = w.row<u32>(o.dst);
  u32 own = w.block->rank;
  for_lanes(m, [&](u32 i) {
    u32 rank = static_cast<u32>(a[i]) >> vm::kRankShift;
    out[i] = rank == 0 ? own : rank - 1;
  });
}

void nothing(Warp &, const Op &, Mask) {}

}  // namespace

bool select_cluster(const Instruction &in, Selected &s) {
  bool wide = ptx::size_of(in.type()) == 8;
  if (in.opcode == "mapa") {
    uniform(s, wide ? lift<&mapped_generic> : lift<&mapped>, in.type());
    s.src[1] = Type::U32;
    return wide != (in.space() == ptx::Space::Shared);
  }
  if (in.opcode == "getctarank") {
    uniform(s, wide ? &rank_of<u64> : &rank_of<u32>, in.type());
    s.dst = Type::U32;
    return true;
  }
  if (in.opcode != "barrier" || !in.has("cluster")) return false;
  s.run = &nothing;
  s.shape = Shape::Ignored;
  s.flow = in.has("arrive") ? vm::Flow::ClusterArrive : vm::Flow::ClusterWait;
  return true;
}

}  // namespace ckpt::softcuda::isa::any
