// SPDX-License-Identifier: Apache-2.0
//
// 128-bit accesses: ld.b128, st.b128, atom.exch.b128, atom.cas.b128. Such a register has two rows
// of 64-bit cells, the lower half first. One lock makes the accesses atomic. Races with accesses of
// other sizes are undefined (PTX ISA, "Memory Consistency Model"), so those need not take it.
#include <mutex>

#include "softcuda/isa/place.h"

namespace ckpt::softcuda::isa::any {
namespace {

constexpr u32 kUpper = vm::kLanes * 8;  // bytes between the rows of the two halves

struct Value {
  u64 low, high;
  bool operator==(const Value &) const = default;
};

Value take(const Warp &w, u32 row, u32 lane) {
  return {w.row<u64>(row)[lane], w.row<u64>(row + kUpper)[lane]};
}
void put(Warp &w, u32 row, u32 lane, Value v) {
  if (row == vm::kNoRow) return;
  w.row<u64>(row)[lane] = v.low;
  w.row<u64>(row + kUpper)[lane] = v.high;
}

// One for all instantiations of access() together: a load must not see half of an exchange.
std::mutex all_accesses;

enum class Access { Load, Store, Exchange, Compare };

template <Access D, Where W>
void access(Warp &w, const Op &o, Mask m) {
  In<Address<W>> a(w, o.a);
  for (; m != 0; m &= m - 1) {
    u32 i = static_cast<u32>(std::countr_zero(m));
    u64 address = a[i] + static_cast<u64>(o.imm);
    char *p = place<W>(w, o, i, address, 16, D != Access::Load);
    if (p == nullptr || address % 16 != 0)
      return report_address(w, o, i, address, 16, D != Access::Load);
    Value old{};
    {
      std::lock_guard lock(all_accesses);
      std::memcpy(&old, p, 16);
      Value wanted = D == Access::Load ? old : take(w, o.b, i);
      if (D == Access::Compare) wanted = old == wanted ? take(w, o.c, i) : old;
      if (D != Access::Load) std::memcpy(p, &wanted, 16);
    }
    if (D != Access::Store) put(w, o.dst, i, old);
  }
}

template <Access D>
Run by_space(Where where) {
  switch (where) {
    case Where::Shared: return &access<D, Where::Shared>;
    case Where::Local: return &access<D, Where::Local>;
    default: return &access<D, Where::Global>;
  }
}

void copy(Warp &w, const Op &o, Mask m) {
  for (; m != 0; m &= m - 1) {
    u32 i = static_cast<u32>(std::countr_zero(m));
    put(w, o.dst, i, take(w, o.a, i));
  }
}
// {low, high} are the rows a and b.
void pack(Warp &w, const Op &o, Mask m) {
  for (; m != 0; m &= m - 1) {
    u32 i = static_cast<u32>(std::countr_zero(m));
    put(w, o.dst, i, {w.row<u64>(o.a)[i], w.row<u64>(o.b)[i]});
  }
}
void unpack(Warp &w, const Op &o, Mask m) {
  for (; m != 0; m &= m - 1) {
    u32 i = static_cast<u32>(std::countr_zero(m));
    Value v = take(w, o.a, i);
    if (o.dst != vm::kNoRow) w.row<u64>(o.dst)[i] = v.low;
    if (o.dst2 != vm::kNoRow) w.row<u64>(o.dst2)[i] = v.high;
  }
}

bool select_move(const Instruction &in, Selected &s) {
  s.shape = Shape::Wide;
  bool packs = in.operands.size() == 2 && in.operands[1].kind == ptx::OperandKind::Vector;
  bool unpacks = in.operands.size() == 2 && in.operands[0].kind == ptx::OperandKind::Vector;
  return uniform(s, packs ? &pack : unpacks ? &unpack : &copy, Type::B128);
}

}  // namespace

bool select_wide(const Instruction &in, Selected &s) {
  if (in.type() != Type::B128) return false;
  if (in.opcode == "mov") return select_move(in, s);
  ptx::Space space = in.space();
  if (space == ptx::Space::Param || in.has("v2")) return false;
  Where w = where(space);
  Run run = nullptr;
  s.flow = vm::Flow::Checked;
  if (in.opcode == "ld") {
    s.shape = Shape::Load;
    s.aux = 1;
    run = by_space<Access::Load>(w);
  }
  if (in.opcode == "st") {
    s.shape = Shape::Store;
    s.aux = 1;
    run = by_space<Access::Store>(w);
  }
  if (in.opcode == "atom") {
    s.shape = Shape::Atomic;
    if (in.has("exch")) run = by_space<Access::Exchange>(w);
    if (in.has("cas")) run = by_space<Access::Compare>(w);
  }
  return uniform(s, run, Type::B128);
}

}  // namespace ckpt::softcuda::isa::any
