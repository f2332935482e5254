// SPDX-License-Identifier: Apache-2.0
//
// How a warp runs. Lanes at one place are a group; the group in the deepest call and at the lowest
// instruction runs until it waits, ends, parts, or comes to where another group stands, which it
// then joins: code is laid out so that paths meet further down. A group that spins for what another
// lane of its warp must do would keep that lane out for ever, so after kQuantum jumps backwards the
// others have their turn (Warp::fair), as on devices with independent thread scheduling.
#include <algorithm>

#include "softcuda/vm/runner.h"

namespace ckpt::softcuda::vm {
namespace {

constexpr u32 kQuantum = 2000;
constexpr size_t kNone = ~size_t{0};

}  // namespace

// Groups that stand at the same place become one.
void Runner::join(Warp &w) {
  for (size_t i = 0; i < w.groups.size(); ++i)
    for (size_t j = w.groups.size(); --j > i;) {
      Group &a = w.groups[i], &b = w.groups[j];
      if (a.frame != b.frame || a.pc != b.pc || a.state != GroupState::Ready ||
          b.state != GroupState::Ready)
        continue;
      a.mask |= b.mask;
      w.groups.erase(w.groups.begin() + static_cast<long>(j));
      w.fair = false;
    }
}

size_t Runner::choose(Warp &w) {
  if (w.groups.size() > 1) join(w);
  size_t best = kNone;
  for (size_t i = 0; i < w.groups.size(); ++i) {
    const Group &g = w.groups[i];
    if (g.state != GroupState::Ready) continue;
    if (best == kNone) {
      best = i;
      continue;
    }
    const Group &b = w.groups[best];
    bool better = w.fair                             ? g.last_run < b.last_run
                  : g.frame->depth != b.frame->depth ? g.frame->depth > b.frame->depth
                                                     : g.pc < b.pc;
    if (better) best = i;
  }
  return best;
}

// False: nobody could run. A group that has used up its time also ends the turn of its warp.
bool Runner::run_warp(Warp &w) {
  bool moved = false;
  for (size_t i; !grid_.stop && (i = choose(w)) != kNone;) {
    moved = true;
    w.groups[i].last_run = ++w.turn;
    if (!run_group(w, i)) break;
  }
  return moved;
}

// Where the next group of the same frame stands.
u32 Runner::limit_of(const Warp &w, const Group &g) const {
  u32 limit = ~0u;
  for (const Group &other : w.groups)
    if (other.frame == g.frame && other.pc > g.pc && other.state == GroupState::Ready)
      limit = std::min(limit, other.pc);
  return limit;
}

// Takes the lanes m out of a group, to go on at `pc`; the rest stays, at `rest_pc`.
size_t Runner::part(Warp &w, size_t index, Mask m, u32 pc, u32 rest_pc) {
  Group &g = w.groups[index];
  Group taken = g;
  taken.mask = m;
  taken.pc = pc;
  g.mask &= ~m;
  g.pc = rest_pc;
  w.groups.push_back(taken);
  return w.groups.size() - 1;
}

// False: the group's time is over.
bool Runner::run_group(Warp &w, size_t index) {
  u32 budget = kQuantum;
  for (;;) {
    Group &g = w.groups[index];
    w.frame = g.frame;
    w.rows = g.frame->rows;
    w.active = g.mask;
    const Op *ops = g.frame->code->ops.data();
    const Mask mask = g.mask;
    const u32 limit = w.groups.size() > 1 ? limit_of(w, g) : ~0u;
    u32 pc = g.pc;
    bool on = true;
    u64 done = 0, moved = 0;
    // Counted for the whole group, and a stretch at a time.
    auto count = [&] {
      u64 lanes = static_cast<u64>(std::popcount(mask));
      instructions_ += done * lanes;
      memory_bytes_ += moved * lanes;
    };
    while (on) {
      if (pc >= limit) {
        g.pc = pc;
        count();
        return true;
      }
      const Op &op = ops[pc];
      ++done;
      moved += op.bytes;
      Mask m = mask;
      if (op.guard != kNoRow) m &= op.guard_negated ? ~w.bits(op.guard) : w.bits(op.guard);
      if (op.flow <= Flow::Checked) {
        if (m != 0) {
          op.run(w, op, m);
          if (w.failed) return true;
        }
        ++pc;
        continue;
      }
      if (m == 0) {
        ++pc;
        continue;
      }
      if (op.flow == Flow::Branch && m == mask) {
        u32 target = static_cast<u32>(op.imm);
        bool back = target <= pc;
        pc = target;
        if (!back || --budget > 0) continue;
        g.pc = pc;
        w.fair = w.groups.size() > 1;
        count();
        return false;
      }
      on = false;
    }
    count();
    // The rest may change the groups.
    const Op &op = ops[pc];
    Mask m = mask;
    if (op.guard != kNoRow) m &= op.guard_negated ? ~w.bits(op.guard) : w.bits(op.guard);
    g.pc = pc;
    if (m != mask) {
      // At a branch the lanes part; others do the instruction by themselves, then meet again.
      if (op.flow == Flow::Branch) {
        part(w, index, m, static_cast<u32>(op.imm), pc + 1);
        return true;
      }
      index = part(w, index, m, pc, pc + 1);
    }
    bool runs = false;
    switch (op.flow) {
      case Flow::Call: runs = call(w, index, op, m); break;
      case Flow::Return: runs = give_back(w, index, m); break;
      case Flow::Exit: exit_lanes(w, index, m); break;
      case Flow::BranchTable: runs = branch_table(w, index, op, m); break;
      case Flow::BlockBarrier: runs = block_barrier(w, index, op, m); break;
      case Flow::WarpSync: runs = warp_sync(w, index, op, m); break;
      case Flow::ClusterArrive: cluster_arrive(w, index, m); break;
      case Flow::ClusterWait: cluster_wait(w, index, m); break;
      default:  // Yield
        op.run(w, op, m);
        if (w.failed) return true;
        ++w.groups[index].pc;
        w.fair = w.groups.size() > 1;
        return false;
    }
    if (!runs || w.failed) return true;
  }
}

// Lanes leave a frame; the last one puts it away.
void Runner::leave(Warp &, Frame *f, Mask m) {
  f->live &= ~m;
  if (f->live == 0) release_frame(f);
}

void Runner::exit_lanes(Warp &w, size_t index, Mask m) {
  for (Frame *f = w.groups[index].frame; f != nullptr;) {
    Frame *parent = f->parent;
    leave(w, f, m);
    f = parent;
  }
  w.groups.erase(w.groups.begin() + static_cast<long>(index));
  w.exited |= m;
  w.block->live -= static_cast<u32>(std::popcount(m));
  // Those who wait for all that live may go on now.
  for (size_t i = 0; i < w.groups.size(); ++i)
    if (w.groups[i].state == GroupState::WarpSync) try_warp_sync(w, w.groups[i].members);
  check_barriers(*w.block);
  check_cluster(*w.block->cluster);
}

bool Runner::call(Warp &w, size_t index, const Op &op, Mask m) {
  const CallSite &site = w.frame->code->calls[static_cast<size_t>(op.imm)];
  if (site.builtin != nullptr) {
    site.builtin(w, op, m, site.args, site.results);
    ++w.groups[index].pc;
    return true;
  }
  if (site.callee != nullptr) return enter(w, index, *site.callee, static_cast<u32>(op.imm), m);
  // Through a pointer: the lanes that call the same function go together.
  const u64 *pointers = w.row<u64>(op.a);
  u64 target = pointers[std::countr_zero(m)];
  Mask same = 0;
  for (Mask left = m; left != 0; left &= left - 1) {
    u32 i = static_cast<u32>(std::countr_zero(left));
    if (pointers[i] == target) same |= 1u << i;
  }
  Result<Code *> code = grid_.kernel->at_address(target);
  if (!code) {
    w.fail(FaultKind::IllegalCall, op, code.error().what);
    return false;
  }
  if (site.args.size() != (*code)->params.size() ||
      site.results.size() != (*code)->results.size()) {
    w.fail(FaultKind::IllegalCall, op,
           "a call through a pointer to a function with other parameters");
    return false;
  }
  if (same != m) index = part(w, index, same, w.groups[index].pc, w.groups[index].pc);
  return enter(w, index, **code, static_cast<u32>(op.imm), same);
}

namespace {

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

bool Runner::enter(Warp &w, size_t index, Code &callee, u32 call_index, Mask m) {
  Group &g = w.groups[index];
  Frame *caller = g.frame;
  u32 base = caller->local_base + caller->code->local_bytes;
  if (u64{base} + callee.local_bytes > w.local_bytes) {
    w.fail(FaultKind::StackOverflow, caller->code->ops[g.pc],
           fmt::format("the stack of {} bytes is full (cudaLimitStackSize)", w.local_bytes));
    return false;
  }
  Frame *f = new_frame(callee);
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

bool Runner::give_back(Warp &w, size_t index, Mask m) {
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
  leave(w, f, m);
  return w.groups.size() == 1;
}

bool Runner::branch_table(Warp &w, size_t index, const Op &op, Mask m) {
  const u32 *selector = w.row<u32>(op.a);
  u32 which = selector[std::countr_zero(m)];
  Mask same = 0;
  for (Mask left = m; left != 0; left &= left - 1) {
    u32 i = static_cast<u32>(std::countr_zero(left));
    if (selector[i] == which) same |= 1u << i;
  }
  if (which >= op.aux) {
    w.fail(FaultKind::IllegalCall, op, "an index beyond the list of targets");
    return false;
  }
  if (same != m) index = part(w, index, same, w.groups[index].pc, w.groups[index].pc);
  w.groups[index].pc = w.frame->code->lists[op.list + which];
  return false;
}

bool Runner::block_barrier(Warp &w, size_t index, const Op &op, Mask m) {
  constexpr u16 kArrive = 1;
  u32 first = static_cast<u32>(std::countr_zero(m));
  u32 id = w.row<u32>(op.a)[first];
  if (id >= kBarriers) {
    w.fail(FaultKind::IllegalCall, op, fmt::format("there is no barrier {}", id));
    return false;
  }
  Barrier &b = w.block->barriers[id];
  b.arrived += static_cast<u32>(std::popcount(m));
  b.expected = op.b == kNoRow ? 0 : std::min(w.row<u32>(op.b)[first], w.block->threads);
  if (op.aux > kArrive) b.count += static_cast<u32>(std::popcount(w.bits(op.c) & m));
  Group &g = w.groups[index];
  if (op.aux == kArrive) {
    ++g.pc;
  } else {
    g.state = GroupState::BlockBarrier;
    g.barrier = id;
  }
  if (b.arrived >= (b.expected ? b.expected : w.block->live)) complete_barrier(*w.block, id);
  return false;
}

void Runner::complete_barrier(Block &block, u32 id) {
  Barrier &b = block.barriers[id];
  b.result = b.count;
  b.of = b.arrived;
  b.arrived = b.count = b.expected = 0;
  for (std::unique_ptr<Warp> &w : block.warps)
    for (Group &g : w->groups) {
      if (g.state != GroupState::BlockBarrier || g.barrier != id) continue;
      w->rows = g.frame->rows;
      const Op &op = g.frame->code->ops[g.pc];
      op.run(*w, op, g.mask);
      ++g.pc;
      g.state = GroupState::Ready;
    }
}

void Runner::check_barriers(Block &block) {
  for (u32 id = 0; id < kBarriers; ++id) {
    const Barrier &b = block.barriers[id];
    if (b.arrived > 0 && b.expected == 0 && b.arrived >= block.live) complete_barrier(block, id);
  }
}

bool Runner::warp_sync(Warp &w, size_t index, const Op &op, Mask m) {
  op.inner(w, op, m);
  Group &g = w.groups[index];
  Mask members = w.row<u32>(op.d)[std::countr_zero(m)];
  g.state = GroupState::WarpSync;
  g.members = members;
  return try_warp_sync(w, members) && w.groups.size() == 1;
}

// True: all members were there, and go on.
bool Runner::try_warp_sync(Warp &w, Mask members) {
  Mask here = 0;
  for (const Group &g : w.groups)
    if (g.state == GroupState::WarpSync && g.members == members) here |= g.mask;
  if ((members & w.lanes & ~w.exited & ~here) != 0) return false;
  w.participants = here;
  for (Group &g : w.groups) {
    if (g.state != GroupState::WarpSync || g.members != members) continue;
    w.rows = g.frame->rows;
    w.frame = g.frame;
    const Op &op = g.frame->code->ops[g.pc];
    op.run(w, op, g.mask);
    ++g.pc;
    g.state = GroupState::Ready;
  }
  return true;
}

void Runner::cluster_arrive(Warp &w, size_t index, Mask m) {
  Cluster &c = *w.block->cluster;
  for (Mask left = m; left != 0; left &= left - 1)
    w.cluster_phase[std::countr_zero(left)] = c.phase;
  c.arrived += static_cast<u32>(std::popcount(m));
  ++w.groups[index].pc;
  check_cluster(c);
}

// The lanes of a group may have arrived in different phases: the latest counts.
void Runner::cluster_wait(Warp &w, size_t index, Mask m) {
  u32 phase = w.block->cluster->phase;
  bool over = true;
  for (Mask left = m; left != 0; left &= left - 1)
    over &= w.cluster_phase[std::countr_zero(left)] != phase;
  if (over)
    ++w.groups[index].pc;
  else
    w.groups[index].state = GroupState::ClusterBarrier;
}

// When all that live have arrived, those who wait go on.
void Runner::check_cluster(Cluster &c) {
  u32 live = 0;
  for (const Block *b : c.blocks) live += b->live;
  if (c.arrived == 0 || c.arrived < live) return;
  c.arrived = 0;
  ++c.phase;
  for (Block *b : c.blocks)
    for (std::unique_ptr<Warp> &w : b->warps)
      for (Group &g : w->groups) {
        if (g.state != GroupState::ClusterBarrier) continue;
        ++g.pc;
        g.state = GroupState::Ready;
      }
}

}  // namespace ckpt::softcuda::vm
