// SPDX-License-Identifier: Apache-2.0
//
// Divergence and reconvergence: which lanes of a warp run next.
//
// The problem. The lanes of a warp execute one instruction together. Where a branch depends on the
// lane, the warp diverges: the sides run one after the other, each for its own lanes. The lanes
// should run together again as soon as their paths meet (reconverge); otherwise all code after the
// branch is executed once for each path. PTX does not mark the points where paths meet.
//
//     0: setp.lt   p, tid, 8
//     1: @p bra    4             // lanes 0-7 jump
//     2: add       x, x, 1       // lanes 8-31
//     3: bra       5
//     4: sub       x, x, 1       // lanes 0-7
//     5: st        [a], x        // all lanes again
//
// The algorithm. Lanes at the same instruction of the same frame are a group with one program
// counter. A divergent branch splits a group. Of the ready groups the one in the deepest call runs,
// and of those the one with the lowest program counter. It runs until it waits, ends, diverges, or
// reaches or passes the program counter of another group of its frame; groups at the same place
// merge. Here instruction 1 leaves {8-31} at 2 and {0-7} at 4. The first group runs 2 and 3, and
// stops at 5 because it has passed 4. The second one runs 4 and reaches 5, where both merge.
//
// This works because compilers place a block before the blocks that follow it, except for the jump
// back of a loop: a group that has not reached a meeting point is at a lower address. Where code is
// laid out otherwise, lanes reconverge late. That costs time and changes no result, because each
// group has its own program counter. Groups that call a function separately have a frame each, and
// merge after the return. Instructions such as shfl.sync do not depend on convergence: they wait
// for the lanes of their member mask (barriers.cc).
//
// Progress. By this order alone, lanes that spin on a lock would keep its holder, which has left
// the loop and is at a higher address, from releasing it. Devices since Volta guarantee progress
// here. So a group yields after kQuantum backward jumps, and the groups of its warp take turns
// (Warp::round_robin) until two of them merge. nanosleep and the tests of an mbarrier yield at
// once.
//
// Cost. One comparison for each instruction. A choice between n groups (at most 32) takes O(n^2)
// steps, once for each stretch that a group runs.
//
// Sources. PTX ISA, "Independent Thread Scheduling". The order, deepest call and then lowest
// program counter, is that of C. Collange, "Stack-less SIMT reconvergence at low cost" (2011,
// hal-00622654); it needs neither a stack nor knowledge of the control flow graph. A. ElTantawy and
// T. Aamodt, "MIMD synchronization on SIMT architectures" (MICRO 2016), treat the deadlock of
// spinning lanes.
#include "softcuda/vm/schedule.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "softcuda/vm/barriers.h"

namespace ckpt::softcuda::vm {
namespace {

constexpr u32 kQuantum = 2000;  // backward jumps
constexpr size_t kNone = ~size_t{0};

// The lanes of `m` that execute a guarded instruction.
[[gnu::always_inline]] inline Mask guarded(const Warp &w, const Op &op, Mask m) {
  if (op.guard == kNoRow) return m;
  return m & (op.guard_negated ? ~w.bits(op.guard) : w.bits(op.guard));
}

void erase_group(Warp &w, size_t index) {
  w.groups.erase(w.groups.begin() + static_cast<long>(index));
}

// Merges ready groups at the same place.
void merge(Warp &w) {
  for (size_t i = 0; i < w.groups.size(); ++i)
    for (size_t j = w.groups.size(); --j > i;) {
      Group &a = w.groups[i], &b = w.groups[j];
      if (a.frame != b.frame || a.pc != b.pc || a.state != GroupState::Ready ||
          b.state != GroupState::Ready)
        continue;
      a.mask |= b.mask;
      erase_group(w, j);
      w.round_robin = false;
    }
}

bool before(const Warp &w, const Group &a, const Group &b) {
  if (w.round_robin) return a.last_run < b.last_run;
  if (a.frame->depth != b.frame->depth) return a.frame->depth > b.frame->depth;
  return a.pc < b.pc;
}

// The index of the group that runs next, or kNone.
size_t choose(Warp &w) {
  if (w.groups.size() > 1) merge(w);
  size_t best = kNone;
  for (size_t i = 0; i < w.groups.size(); ++i) {
    if (w.groups[i].state != GroupState::Ready) continue;
    if (best == kNone || before(w, w.groups[i], w.groups[best])) best = i;
  }
  return best;
}

// The lowest program counter of the ready groups in the frame of `g` that are ahead of it, or ~0.
u32 next_pc_in_frame(const Warp &w, const Group &g) {
  u32 limit = ~0u;
  for (const Group &other : w.groups)
    if (other.frame == g.frame && other.pc > g.pc && other.state == GroupState::Ready)
      limit = std::min(limit, other.pc);
  return limit;
}

// Moves the lanes `m` of a group into a new one at `pc`; the others stay in theirs, at `rest_pc`.
// Returns the index of the new group.
size_t split(Warp &w, size_t index, Mask m, u32 pc, u32 rest_pc) {
  Group &g = w.groups[index];
  Group taken = g;
  taken.mask = m;
  taken.pc = pc;
  g.mask &= ~m;
  g.pc = rest_pc;
  w.groups.push_back(taken);
  return w.groups.size() - 1;
}

// The lanes of `m` that have in their cells the same value as the first lane. Without a jump for
// each lane, since every warp-wide instruction asks; mostly it is a constant.
template <class Cell>
Mask same_as_first(const Cell *row, Mask m) {
  Cell first = row[std::countr_zero(m)], differs = 0;
  for (u32 i = 0; i < kLanes; ++i) differs |= row[i] ^ first;
  if (differs == 0) return m;
  Mask same = 0;
  for (u32 i = 0; i < kLanes; ++i) same |= static_cast<Mask>(row[i] == first) << i;
  return same & m;
}

// The index of a group of the lanes `same`; the others of the group come back to this instruction.
size_t split_off(Warp &w, size_t index, Mask same) {
  const Group &g = w.groups[index];
  return same == g.mask ? index : split(w, index, same, g.pc, g.pc);
}

void copy_slots(Warp &w, Mask m, u32 from_base, const std::vector<Slot> &from, u32 to_base,
                const std::vector<Slot> &to) {
  for (size_t k = 0; k < from.size() && k < to.size(); ++k)
    for (Mask left = m; left != 0; left &= left - 1) {
      std::byte *lane = w.local + static_cast<u32>(std::countr_zero(left)) * w.local_stride;
      std::memcpy(lane + to_base + to[k].offset, lane + from_base + from[k].offset,
                  std::min(from[k].bytes, to[k].bytes));
    }
}

}  // namespace

Scheduler::~Scheduler() {
  grid_.instructions += instructions_;
  grid_.memory_bytes += memory_bytes_;
}

bool Scheduler::run(Warp &w) {
  bool ran = false;
  for (size_t i; !grid_.stop && (i = choose(w)) != kNone;) {
    ran = true;
    w.groups[i].last_run = ++w.turn;
    if (!run_group(w, i)) break;
  }
  return ran;
}

// Runs a group until another one has to be chosen. False: the group yields, and the warp with it.
bool Scheduler::run_group(Warp &w, size_t index) {
  u32 backward_jumps = kQuantum;
  for (;;) {
    Stop stop = run_stretch(w, w.groups[index], backward_jumps);
    if (stop == Stop::Failed || stop == Stop::Reached) return true;
    if (stop == Stop::Yielded) break;
    const Group &g = w.groups[index];
    const Op &op = g.frame->code->ops[g.pc];
    const Mask m = guarded(w, op, g.mask);
    if (m != g.mask) {
      // At a branch the lanes go different ways. Other instructions are executed by the lanes of
      // the guard alone, and both groups meet again after it.
      if (op.flow == Flow::Branch) {
        split(w, index, m, static_cast<u32>(op.imm), g.pc + 1);
        return true;
      }
      index = split(w, index, m, g.pc, g.pc + 1);
    }
    if (op.flow == Flow::Yield) {
      op.run(w, op, m);
      if (w.failed) return true;
      ++w.groups[index].pc;
      break;
    }
    if (!control(w, index, op, m) || w.failed) return true;
  }
  w.round_robin = w.groups.size() > 1;
  return false;
}

// The loop of the interpreter: executes instructions for all lanes of one group, and jumps that all
// of them take. Leaves g.pc at the instruction that ended it.
Scheduler::Stop Scheduler::run_stretch(Warp &w, Group &g, u32 &backward_jumps) {
  w.frame = g.frame;
  w.rows = g.frame->rows;
  w.active = g.mask;
  const Op *ops = g.frame->code->ops.data();
  const Mask mask = g.mask;
  const u32 limit = w.groups.size() > 1 ? next_pc_in_frame(w, g) : ~0u;
  u32 pc = g.pc;
  u64 executed = 0, moved = 0;  // by each lane
  auto end = [&](Stop why) {
    g.pc = pc;
    u64 lanes = mask == kAllLanes ? kLanes : static_cast<u64>(std::popcount(mask));
    instructions_ += executed * lanes;
    memory_bytes_ += moved * lanes;
    return why;
  };
  while (pc < limit) {
    const Op &op = ops[pc];
    ++executed;
    moved += op.bytes;
    const Mask m = guarded(w, op, mask);
    if (op.flow <= Flow::Checked) {
      if (m != 0) {
        op.run(w, op, m);
        if (w.failed) return Stop::Failed;
      }
      ++pc;
    } else if (m == 0) {
      ++pc;
    } else if (op.flow == Flow::Branch && m == mask) {
      u32 target = static_cast<u32>(op.imm);
      bool backward = target <= pc;
      pc = target;
      if (backward && --backward_jumps == 0) return end(Stop::Yielded);
    } else {
      return end(Stop::Control);
    }
  }
  return end(Stop::Reached);
}

// Executes an instruction that changes the flow of control, for the lanes `m` of a group, which are
// all of its lanes. True: the group may run on at its new program counter.
bool Scheduler::control(Warp &w, size_t index, const Op &op, Mask m) {
  switch (op.flow) {
    case Flow::Call: return call(w, index, op, m);
    case Flow::Return: return return_from_call(w, index, m);
    case Flow::WarpSync: return sync_members(w, index, op, m);
    case Flow::Exit: exit_lanes(w, index, m); return false;
    case Flow::BranchTable: branch_table(w, index, op, m); return false;
    case Flow::BlockBarrier: sync_block(w, index, op, m); return false;
    case Flow::ClusterArrive: cluster_arrive(w, index, m); return false;
    case Flow::ClusterWait: cluster_wait(w, index, m); return false;
    default: return false;  // unreachable
  }
}

// Lanes with different member masks, as those of partitions of a warp, are at the instruction
// together, but each mask executes it alone (PTX ISA, "membermask").
bool Scheduler::sync_members(Warp &w, size_t index, const Op &op, Mask m) {
  Mask same = same_as_first(w.row<u32>(op.d), m);
  return warp_sync(w, split_off(w, index, same), op, same) && same == m;
}

// Each lane names the barrier, and for how many threads it waits (PTX ISA, "barrier": the number
// may differ within a warp, except with .aligned).
void Scheduler::sync_block(Warp &w, size_t index, const Op &op, Mask m) {
  Mask same = same_as_first(w.row<u32>(op.a), m);
  if (op.b != kNoRow) same = same_as_first(w.row<u32>(op.b), same);
  block_barrier(w, split_off(w, index, same), op, same);
}

void Scheduler::leave_frame(Frame *f, Mask m) {
  f->live &= ~m;
  if (f->live == 0) frames_.release(f);
}

void Scheduler::exit_lanes(Warp &w, size_t index, Mask m) {
  for (Frame *f = w.groups[index].frame; f != nullptr;) {
    Frame *parent = f->parent;
    leave_frame(f, m);
    f = parent;
  }
  erase_group(w, index);
  w.exited |= m;
  w.block->live -= static_cast<u32>(std::popcount(m));
  // Barriers wait for live threads only.
  for (size_t i = 0; i < w.groups.size(); ++i)
    if (w.groups[i].state == GroupState::WarpSync) try_warp_sync(w, w.groups[i].members);
  check_barriers(*w.block);
  check_cluster(*w.block->cluster);
}

bool Scheduler::call(Warp &w, size_t index, const Op &op, Mask m) {
  const CallSite &site = w.frame->code->calls[static_cast<size_t>(op.imm)];
  if (site.builtin != nullptr) {
    site.builtin(w, op, m, site.args, site.results);
    ++w.groups[index].pc;
    return true;
  }
  if (site.callee == nullptr) return call_pointer(w, index, op, m);
  return enter(w, index, *site.callee, static_cast<u32>(op.imm), m);
}

// The lanes that call the same function enter it together; the others call theirs later.
bool Scheduler::call_pointer(Warp &w, size_t index, const Op &op, Mask m) {
  const CallSite &site = w.frame->code->calls[static_cast<size_t>(op.imm)];
  const u64 *pointers = w.row<u64>(op.a);
  Mask same = same_as_first(pointers, m);
  Result<Code *> code = grid_.kernel->at_address(pointers[std::countr_zero(m)]);
  if (!code) {
    w.fail(FaultKind::IllegalCall, op, code.error().what);
    return false;
  }
  if (site.args.size() != (*code)->params.size() ||
      site.results.size() != (*code)->results.size()) {
    w.fail(FaultKind::IllegalCall, op,
           fmt::format("the function {}, called through a pointer, has other parameters",
                       (*code)->name));
    return false;
  }
  index = split_off(w, index, same);
  return enter(w, index, **code, static_cast<u32>(op.imm), same);
}

bool Scheduler::enter(Warp &w, size_t index, Code &callee, u32 call_index, Mask m) {
  Group &g = w.groups[index];
  Frame *caller = g.frame;
  u32 base = caller->local_base + caller->code->local_bytes;
  if (u64{base} + callee.local_bytes > w.local_bytes) {
    w.fail(FaultKind::StackOverflow, caller->code->ops[g.pc],
           fmt::format("the stack of {} bytes is full; cudaLimitStackSize sets its size",
                       w.local_bytes));
    return false;
  }
  Frame *f = frames_.take(callee);
  f->parent = caller;
  f->return_pc = g.pc + 1;
  f->call = call_index;
  f->live = m;
  f->local_base = base;
  f->depth = caller->depth + 1;
  copy_slots(w, m, caller->local_base, caller->code->calls[call_index].args, base, callee.params);
  g.frame = f;
  g.pc = 0;
  return true;
}

bool Scheduler::return_from_call(Warp &w, size_t index, Mask m) {
  Group &g = w.groups[index];
  Frame *f = g.frame;
  if (f->parent == nullptr) {
    exit_lanes(w, index, m);
    return false;
  }
  Frame *caller = f->parent;
  copy_slots(w, m, f->local_base, f->code->results, caller->local_base,
             caller->code->calls[f->call].results);
  g.frame = caller;
  g.pc = f->return_pc;
  leave_frame(f, m);
  return w.groups.size() == 1;
}

// The lanes with the same target jump together; the others come back to this instruction.
void Scheduler::branch_table(Warp &w, size_t index, const Op &op, Mask m) {
  const u32 *selector = w.row<u32>(op.a);
  u32 which = selector[std::countr_zero(m)];
  if (which >= op.aux)
    return w.fail(FaultKind::IllegalCall, op,
                  fmt::format("index {} is beyond the list of {} targets", which, op.aux));
  Mask same = same_as_first(selector, m);
  index = split_off(w, index, same);
  w.groups[index].pc = w.frame->code->lists[op.list + which];
}

}  // namespace ckpt::softcuda::vm
