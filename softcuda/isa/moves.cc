// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include "common/base/clock.h"
#include "softcuda/isa/helpers.h"
#include "softcuda/isa/pick.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

u32 narrow(u64 a) { return static_cast<u32>(a); }
u64 zero_extend(u32 a) { return a; }
u64 sign_extend(u32 a) { return static_cast<u64>(static_cast<i64>(static_cast<i32>(a))); }
void invert(Warp &w, const Op &o, Mask m) { set_bits(w, o.dst, m, ~w.bits(o.a)); }

u64 clock_cycles() { return static_cast<u64>(monotonic_ns()); }

u64 time_of_day_ns() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<u64>(t.tv_sec) * 1'000'000'000 + static_cast<u64>(t.tv_nsec);
}

u32 dimension(const vm::Dim &d, u32 axis) { return axis == 0 ? d.x : axis == 1 ? d.y : d.z; }

u64 value_of(const Warp &w, Special id, u32 lane) {
  const vm::Grid &g = *w.grid;
  u32 axis = static_cast<u32>(id) % 3;
  switch (id) {
    case Special::TidX:
    case Special::TidY:
    case Special::TidZ: return w.tid[axis][lane];
    case Special::NtidX:
    case Special::NtidY:
    case Special::NtidZ: return dimension(g.block, axis);
    case Special::CtaidX:
    case Special::CtaidY:
    case Special::CtaidZ: return dimension(w.block->index, axis);
    case Special::NctaidX:
    case Special::NctaidY:
    case Special::NctaidZ: return dimension(g.grid, axis);
    case Special::ClusterCtaidX:
    case Special::ClusterCtaidY:
    case Special::ClusterCtaidZ:
      return dimension(w.block->index, axis) % dimension(g.cluster, axis);
    case Special::ClusterNctaidX:
    case Special::ClusterNctaidY:
    case Special::ClusterNctaidZ: return dimension(g.cluster, axis);
    case Special::ClusteridX:
    case Special::ClusteridY:
    case Special::ClusteridZ: return dimension(w.block->index, axis) / dimension(g.cluster, axis);
    case Special::NclusteridX:
    case Special::NclusteridY:
    case Special::NclusteridZ: return dimension(g.grid, axis) / dimension(g.cluster, axis);
    case Special::ClusterRank: return w.block->rank;
    case Special::ClusterSize: return g.cluster.count();
    case Special::ExplicitCluster: return g.explicit_cluster;
    case Special::LaneId: return lane;
    case Special::WarpId: return w.index;
    case Special::NwarpId: return w.block->warps.size();
    case Special::SmId: return w.block->linear % g.multiprocessors;
    case Special::NsmId: return g.multiprocessors;
    case Special::GridId: return g.id;
    case Special::Clock:
    case Special::Clock64: return clock_cycles();
    case Special::ClockHi: return clock_cycles() >> 32;
    case Special::GlobalTimer:
    case Special::GlobalTimerLo: return time_of_day_ns();
    case Special::GlobalTimerHi: return time_of_day_ns() >> 32;
    case Special::MaskEq: return 1u << lane;
    case Special::MaskLt: return (1u << lane) - 1;
    case Special::MaskLe: return (2u << lane) - 1;
    case Special::MaskGe: return ~((1u << lane) - 1);
    case Special::MaskGt: return ~((2u << lane) - 1);
    case Special::DynamicShared: return g.dynamic_shared;
    // In allocation units (PTX ISA, "%total_smem_size").
    case Special::TotalShared:
      return (g.static_shared + g.dynamic_shared + g.shared_unit - 1) / g.shared_unit *
             g.shared_unit;
    case Special::EnvReg1: return g.workspace >> 32;
    case Special::EnvReg2: return g.workspace;
  }
  return 0;
}

// Whether the lanes of a warp have different values. Of %tid, which also has, `special` takes care.
bool of_each_lane(Special id) {
  return id == Special::LaneId || (id >= Special::MaskEq && id <= Special::MaskGt);
}

template <class C>
void special(Warp &w, const Op &o, Mask m) {
  C *out = w.row<C>(o.dst);
  Special id = static_cast<Special>(o.aux);
  if (id <= Special::TidZ) {
    const u32 *tid = w.tid[o.aux];
    for_lanes(m, [&](u32 i) { out[i] = tid[i]; });
  } else if (of_each_lane(id)) {
    for_lanes(m, [&](u32 i) { out[i] = static_cast<C>(value_of(w, id, i)); });
  } else {
    const C value = static_cast<C>(value_of(w, id, 0));
    for_lanes(m, [&](u32 i) { out[i] = value; });
  }
}

void frame_address(Warp &w, const Op &o, Mask m) {
  u64 *out = w.row<u64>(o.dst);
  u64 at = w.frame->local_base + static_cast<u64>(o.imm);
  for_lanes(m, [&](u32 i) { out[i] = at; });
}

// Elements have at most 32 bits; wide.cc handles those of 64.
void pack(Warp &w, const Op &o, Mask m) {
  const u32 *rows = w.frame->code->lists.data() + o.list;
  u64 mask = (1ull << o.imm) - 1;
  bool wide = static_cast<u64>(o.imm) * o.aux == 64;
  for (; m != 0; m &= m - 1) {
    u32 i = static_cast<u32>(std::countr_zero(m));
    u64 v = 0;
    for (u32 k = 0; k < o.aux; ++k) v |= (w.row<u32>(rows[k])[i] & mask) << (o.imm * k);
    if (wide)
      w.row<u64>(o.dst)[i] = v;
    else
      w.row<u32>(o.dst)[i] = static_cast<u32>(v);
  }
}

void unpack(Warp &w, const Op &o, Mask m) {
  const u32 *rows = w.frame->code->lists.data() + o.list;
  u64 mask = (1ull << o.imm) - 1;
  bool wide = static_cast<u64>(o.imm) * o.aux == 64;
  for (; m != 0; m &= m - 1) {
    u32 i = static_cast<u32>(std::countr_zero(m));
    u64 v = wide ? w.row<u64>(o.a)[i] : w.row<u32>(o.a)[i];
    for (u32 k = 0; k < o.aux; ++k)
      if (rows[k] != vm::kNoRow) w.row<u32>(rows[k])[i] = static_cast<u32>(v >> (o.imm * k) & mask);
  }
}

}  // namespace
}  // namespace ckpt::softcuda::isa::CKPT_ISA

namespace ckpt::softcuda::isa {

const Helpers &helpers() {
  using namespace any;
  static constexpr Helpers kHelpers{lift<&narrow>, lift<&zero_extend>, lift<&sign_extend>, &invert,
                                    &special<u32>, &special<u64>,      &frame_address,     &pack,
                                    &unpack};
  return kHelpers;
}

}  // namespace ckpt::softcuda::isa
