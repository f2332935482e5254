// SPDX-License-Identifier: Apache-2.0
#include "softcuda/vm/barriers.h"

#include <algorithm>
#include <bit>

#include "common/base/result.h"

namespace ckpt::softcuda::vm {
namespace {

constexpr u16 kArrive = 1;  // Op::aux: bar.arrive; larger values are bar.red (isa/control.cc)

// Executes the instruction at which a group waits, and makes the group ready.
void resume(Warp &w, Group &g) {
  w.rows = g.frame->rows;
  w.frame = g.frame;
  const Op &op = g.frame->code->ops[g.pc];
  op.run(w, op, g.mask);
  ++g.pc;
  g.state = GroupState::Ready;
}

void complete_barrier(Block &block, u32 id) {
  Barrier &b = block.barriers[id];
  b.result = b.count;
  b.result_threads = b.arrived;
  b.arrived = b.count = b.expected = 0;
  for (std::unique_ptr<Warp> &w : block.warps)
    for (Group &g : w->groups)
      if (g.state == GroupState::BlockBarrier && g.barrier == id) resume(*w, g);
}

}  // namespace

void block_barrier(Warp &w, size_t index, const Op &op, Mask m) {
  u32 first = static_cast<u32>(std::countr_zero(m));
  u32 id = w.row<u32>(op.a)[first];
  if (id >= kBarriers)
    return w.fail(FaultKind::IllegalCall, op,
                  fmt::format("barrier {} does not exist; a block has {}", id, kBarriers));
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
}

void check_barriers(Block &block) {
  for (u32 id = 0; id < kBarriers; ++id) {
    const Barrier &b = block.barriers[id];
    if (b.arrived > 0 && b.expected == 0 && b.arrived >= block.live) complete_barrier(block, id);
  }
}

bool warp_sync(Warp &w, size_t index, const Op &op, Mask m) {
  op.inner(w, op, m);
  Group &g = w.groups[index];
  Mask members = w.row<u32>(op.d)[std::countr_zero(m)];
  g.state = GroupState::WarpSync;
  g.members = members;
  return try_warp_sync(w, members) && w.groups.size() == 1;
}

bool try_warp_sync(Warp &w, Mask members) {
  Mask here = 0;
  for (const Group &g : w.groups)
    if (g.state == GroupState::WarpSync && g.members == members) here |= g.mask;
  if ((members & w.lanes & ~w.exited & ~here) != 0) return false;
  w.participants = here;
  for (Group &g : w.groups)
    if (g.state == GroupState::WarpSync && g.members == members) resume(w, g);
  return true;
}

void cluster_arrive(Warp &w, size_t index, Mask m) {
  Cluster &c = *w.block->cluster;
  for (Mask left = m; left != 0; left &= left - 1)
    w.cluster_phase[std::countr_zero(left)] = c.phase;
  c.arrived += static_cast<u32>(std::popcount(m));
  ++w.groups[index].pc;
  check_cluster(c);
}

// Lanes of one group may have arrived in different phases. The group waits while the current phase
// is that of any of them.
void cluster_wait(Warp &w, size_t index, Mask m) {
  u32 phase = w.block->cluster->phase;
  bool over = true;
  for (Mask left = m; left != 0; left &= left - 1)
    over &= w.cluster_phase[std::countr_zero(left)] != phase;
  if (over)
    ++w.groups[index].pc;
  else
    w.groups[index].state = GroupState::ClusterBarrier;
}

void check_cluster(Cluster &c) {
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
