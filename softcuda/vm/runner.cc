// SPDX-License-Identifier: Apache-2.0
//
// Blocks on a thread of the host.
//
// A thread runs one cluster at a time (usually a single block): its warps take turns, and each runs
// until it waits or yields. A round in which no warp runs is a deadlock: all of them wait for
// threads that have exited or will never arrive. Blocks of a cooperative launch also wait for each
// other, through memory. There all clusters of the thread are started first and take turns, each
// for one round.
//
// A block needs shared memory, local memory for each lane and a frame for each warp. They are kept
// as a Resident and used for the next block; only registers, barriers and lane states start anew.
#include "softcuda/vm/runner.h"

#include <algorithm>
#include <bit>

namespace ckpt::softcuda::vm {

Runner::Runner(Grid &grid) : grid_(grid), scheduler_(grid, frames_) {
  u64 wanted = u64{grid.kernel->local_bytes()} + grid.stack_bytes;
  local_bytes_ = static_cast<u32>((wanted + 15) / 16 * 16);
}

// A resident that no block uses, or a new one. What depends on the block's shape alone is set up
// once.
Runner::Resident &Runner::resident() {
  for (std::unique_ptr<Resident> &r : residents_)
    if (!r->active) return *r;
  Resident &r = *residents_.emplace_back(std::make_unique<Resident>());
  Block &b = r.block;
  b.grid = &grid_;
  b.threads = static_cast<u32>(grid_.block.count());
  b.shared_bytes = grid_.static_shared + grid_.dynamic_shared;
  r.shared = aligned_bytes(kSharedBytes);
  b.shared = r.shared.get();
  for (u32 first = 0; first < b.threads; first += kLanes) add_warp(r, first);
  return r;
}

// The warp of the threads from `first` on.
void Runner::add_warp(Resident &r, u32 first) {
  Block &b = r.block;
  Warp &w = *b.warps.emplace_back(std::make_unique<Warp>());
  w.block = &b;
  w.grid = &grid_;
  w.index = first / kLanes;
  u32 n = std::min(kLanes, b.threads - first);
  w.lanes = n == kLanes ? kAllLanes : (1u << n) - 1;
  for (u32 i = 0; i < n; ++i) {
    u32 t = first + i;
    w.tid[0][i] = t % grid_.block.x;
    w.tid[1][i] = t / grid_.block.x % grid_.block.y;
    w.tid[2][i] = t / grid_.block.x / grid_.block.y;
  }
  // From lane to lane an odd number of cache lines, so that the same offset of different lanes
  // falls into different sets of the cache.
  w.local_stride = ((local_bytes_ + kCacheLine - 1) / kCacheLine | 1) * kCacheLine;
  r.local.push_back(aligned_bytes(w.local_stride * kLanes));
  w.local = r.local.back().get();
  w.local_bytes = local_bytes_;
}

namespace {

Dim position(u64 linear, Dim size) {
  return {static_cast<u32>(linear % size.x), static_cast<u32>(linear / size.x % size.y),
          static_cast<u32>(linear / size.x / size.y)};
}

}  // namespace

Cluster &Runner::begin_cluster(u64 number) {
  const Dim &size = grid_.cluster, &grid = grid_.grid;
  Dim at = position(number, {grid.x / size.x, grid.y / size.y, grid.z / size.z});
  Cluster *cluster = nullptr;
  for (u32 rank = 0; rank < size.count(); ++rank) {
    Resident &r = resident();
    Dim inside = position(rank, size);
    begin(r, {at.x * size.x + inside.x, at.y * size.y + inside.y, at.z * size.z + inside.z});
    if (rank == 0) {
      cluster = &r.cluster;
      *cluster = Cluster{};
    }
    cluster->blocks.push_back(&r.block);
    r.block.cluster = cluster;
    r.block.rank = rank;
  }
  // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.UndefReturn): a cluster has at least one block
  return *cluster;
}

void Runner::begin(Resident &r, Dim index) {
  Block &b = r.block;
  r.active = true;
  b.index = index;
  b.linear = index.x + u64{grid_.grid.x} * (index.y + u64{grid_.grid.y} * index.z);
  b.live = b.threads;
  std::fill(std::begin(b.barriers), std::end(b.barriers), Barrier{});
  for (std::unique_ptr<Warp> &w : b.warps) begin_warp(*w);
}

void Runner::begin_warp(Warp &w) {
  Frame *f = frames_.take(grid_.kernel->entry());
  f->live = w.lanes;
  f->parent = nullptr;
  f->depth = 0;
  f->local_base = 0;
  w.exited = 0;
  w.carry = 0;
  w.failed = false;
  w.round_robin = false;
  w.turn = 0;
  std::fill(std::begin(w.cluster_phase), std::end(w.cluster_phase), 0);
  w.groups.assign(1, Group{f, 0, w.lanes});
}

// One round: runs every warp once. False: no warp could run.
bool Runner::step(Cluster &c) {
  bool moved = false;
  for (Block *b : c.blocks) moved |= b->live > 0 && step(*b);
  return moved;
}

bool Runner::step(Block &b) {
  bool moved = false;
  for (std::unique_ptr<Warp> &w : b.warps) {
    if (w->groups.empty()) continue;
    moved |= scheduler_.run(*w);
    if (grid_.stop) break;
  }
  return moved;
}

namespace {

std::string_view awaited(const Group &g) {
  switch (g.state) {
    case GroupState::BlockBarrier: return "a barrier of the block";
    case GroupState::ClusterBarrier: return "the barrier of the cluster";
    default: return "other lanes of the warp";
  }
}

bool alive(const Cluster &c) {
  return std::any_of(c.blocks.begin(), c.blocks.end(), [](const Block *b) { return b->live > 0; });
}

}  // namespace

void Runner::report_deadlock(Cluster &c) {
  for (Block *b : c.blocks)
    for (std::unique_ptr<Warp> &w : b->warps)
      for (Group &g : w->groups)
        return grid_.fail(
            FaultKind::Deadlock,
            fmt::format(
                "{}: PTX line {}: deadlock: warp {} of block ({},{},{}) waits for {}, and no other "
                "thread can run",
                g.frame->code->name, g.frame->code->ops[g.pc].line, w->index, b->index.x,
                b->index.y, b->index.z, awaited(g)));
}

void Runner::run(u64 cluster) {
  Cluster &c = begin_cluster(cluster);
  while (alive(c) && !grid_.stop)
    if (!step(c)) report_deadlock(c);
  for (std::unique_ptr<Resident> &r : residents_) r->active = false;
}

void Runner::start(u64 cluster) { begin_cluster(cluster); }

bool Runner::run_started() {
  bool any = false, moved = false;
  for (std::unique_ptr<Resident> &r : residents_) {
    if (r->block.rank != 0 || !alive(r->cluster) || grid_.stop) continue;
    any = true;
    if (step(r->cluster))
      moved = true;
    else
      report_deadlock(r->cluster);
  }
  return any && moved && !grid_.stop;
}

}  // namespace ckpt::softcuda::vm
