// SPDX-License-Identifier: Apache-2.0
//
// Control flow, barriers of a block, fences. For most of these Op::flow tells the scheduler what to
// do.
#include <atomic>

#include "softcuda/isa/pick.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

void nothing(Warp &, const Op &, Mask) {}

void fence(Warp &, const Op &, Mask) { std::atomic_thread_fence(std::memory_order_seq_cst); }

void trap(Warp &w, const Op &o, Mask) {
  w.fail(vm::FaultKind::Trap, o, "the kernel executed a trap instruction");
}

// Op::aux: the result of bar.red, written when the barrier is complete.
enum BarrierKind : u16 { kSync = 0, kArrive = 1, kCount = 2, kAll = 3, kAny = 4 };

void barrier_result(Warp &w, const Op &o, Mask m) {
  if (o.aux < kCount) return;
  const vm::Barrier &b = w.block->barriers[w.row<u32>(o.a)[std::countr_zero(m)] % vm::kBarriers];
  if (o.aux != kCount) {
    bool yes = o.aux == kAll ? b.result == b.result_threads : b.result != 0;
    return set_bits(w, o.dst, m, yes ? m : 0);
  }
  u32 *out = w.row<u32>(o.dst);
  for_lanes(m, [&](u32 i) { out[i] = b.result; });
}

bool select_barrier(const Instruction &in, Selected &s) {
  if (in.has("cluster")) return false;  // isa/cluster.cc
  s.run = &barrier_result;
  s.shape = Shape::Barrier;
  s.flow = vm::Flow::BlockBarrier;
  if (in.has("arrive")) s.aux = kArrive;
  if (!in.has("red")) return in.has("sync") || in.has("arrive");
  s.aux = in.has("popc") ? kCount : in.has("and") ? kAll : kAny;
  s.dst = in.has("popc") ? Type::U32 : Type::Pred;
  return true;
}

bool flow(Selected &s, vm::Flow f, Shape shape = Shape::Ignored) {
  s.run = &nothing;
  s.flow = f;
  s.shape = shape;
  return true;
}

}  // namespace

bool select_control(const Instruction &in, Selected &s) {
  if (in.opcode == "bra") return flow(s, vm::Flow::Branch, Shape::Control);
  if (in.opcode == "brx") return flow(s, vm::Flow::BranchTable, Shape::Control);
  if (in.opcode == "call") return flow(s, vm::Flow::Call, Shape::Control);
  if (in.opcode == "ret") return flow(s, vm::Flow::Return);
  if (in.opcode == "exit") return flow(s, vm::Flow::Exit);
  if (in.opcode == "nanosleep") return flow(s, vm::Flow::Yield);
  if (in.opcode == "bar" || in.opcode == "barrier") return select_barrier(in, s);
  if (in.opcode == "pmevent" || in.opcode == "griddepcontrol" || in.opcode == "setmaxnreg")
    return flow(s, vm::Flow::Next);
  if (in.opcode == "membar" || in.opcode == "fence") {
    s.run = &fence;
    s.shape = Shape::Ignored;
    return true;
  }
  if (in.opcode == "trap" || in.opcode == "brkpt") {
    s.run = &trap;
    s.shape = Shape::Ignored;
    s.flow = vm::Flow::Checked;
    return true;
  }
  return false;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
