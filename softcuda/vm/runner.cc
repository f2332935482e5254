// SPDX-License-Identifier: Apache-2.0
#include "softcuda/vm/runner.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace ckpt::softcuda::vm {
namespace {

constexpr size_t kLine = 64;

}  // namespace

void AlignedFree::operator()(std::byte *p) const { std::free(p); }

AlignedBytes aligned_bytes(size_t n) {
  void *p = std::aligned_alloc(kLine, (n + kLine) / kLine * kLine);
  if (p == nullptr) throw std::bad_alloc();
  return AlignedBytes(static_cast<std::byte *>(p));
}

void Grid::fail(FaultKind kind, std::string text) {
  std::lock_guard lock(fault_mutex);
  if (fault.kind == FaultKind::None) fault = {kind, std::move(text)};
  stop = true;
}

void Warp::fail(FaultKind kind, const Op &op, std::string why) {
  failed = true;
  grid->fail(kind, fmt::format("{}: PTX line {}: {}", frame->code->name, op.line, why));
}

Runner::Runner(Grid &grid) : grid_(grid) {
  u64 wanted = u64{grid.kernel->local_bytes()} + grid.stack_bytes;
  local_bytes_ = static_cast<u32>((wanted + 15) / 16 * 16);
}

Runner::~Runner() {
  grid_.instructions += instructions_;
  grid_.memory_bytes += memory_bytes_;
}

Frame *Runner::new_frame(const Code &code) {
  if (code.index >= free_frames_.size()) free_frames_.resize(code.index + 1);
  std::vector<Frame *> &free = free_frames_[code.index];
  if (!free.empty()) {
    Frame *f = free.back();
    free.pop_back();
    return f;
  }
  Frame &f = frames_.emplace_back();
  f.code = &code;
  rows_.push_back(aligned_bytes(code.frame_bytes));
  f.rows = rows_.back().get();
  std::memset(f.rows, 0, code.frame_bytes);
  for (const Constant &c : code.constants)
    for (u32 i = 0; i < kLanes; ++i) std::memcpy(f.rows + c.row + i * c.bytes, &c.value, c.bytes);
  return &f;
}

void Runner::release_frame(Frame *f) { free_frames_[f->code->index].push_back(f); }

// Blocks are furnished once and used again.
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
  // An odd number of cache lines from lane to lane, so that they do not fall upon each other.
  u64 stride = ((local_bytes_ + kLine - 1) / kLine | 1) * kLine;
  for (u32 first = 0; first < b.threads; first += kLanes) {
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
    r.local.push_back(aligned_bytes(stride * kLanes));
    w.local = r.local.back().get();
    w.local_stride = stride;
    w.local_bytes = local_bytes_;
  }
  return r;
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
  return *cluster;
}

void Runner::begin(Resident &r, Dim index) {
  Block &b = r.block;
  r.active = true;
  b.index = index;
  b.linear = index.x + u64{grid_.grid.x} * (index.y + u64{grid_.grid.y} * index.z);
  b.live = b.threads;
  std::fill(std::begin(b.barriers), std::end(b.barriers), Barrier{});
  for (std::unique_ptr<Warp> &w : b.warps) begin_warp(r, *w);
}

void Runner::begin_warp(Resident &, Warp &w) {
  Frame *f = new_frame(grid_.kernel->entry());
  f->live = w.lanes;
  f->parent = nullptr;
  f->depth = 0;
  f->local_base = 0;
  w.exited = 0;
  w.carry = 0;
  w.failed = false;
  w.fair = false;
  w.turn = 0;
  std::fill(std::begin(w.cluster_phase), std::end(w.cluster_phase), 0);
  w.groups.assign(1, Group{f, 0, w.lanes});
}

// False: nobody could go on.
bool Runner::step(Cluster &c) {
  bool moved = false;
  for (Block *b : c.blocks) moved |= b->live > 0 && step(*b);
  return moved;
}

bool Runner::step(Block &b) {
  bool moved = false;
  for (std::unique_ptr<Warp> &w : b.warps) {
    if (w->groups.empty()) continue;
    moved |= run_warp(*w);
    if (grid_.stop) break;
  }
  return moved;
}

namespace {

std::string_view waits_for(const Group &g) {
  switch (g.state) {
    case GroupState::BlockBarrier: return "a barrier of the block";
    case GroupState::ClusterBarrier: return "the barrier of the cluster";
    default: return "other lanes of its warp";
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
                "{}: PTX line {}: warp {} of block ({},{},{}) waits for {} and nobody can come",
                g.frame->code->name, g.frame->code->ops[g.pc].line, w->index, b->index.x,
                b->index.y, b->index.z, waits_for(g)));
}

void Runner::run(u64 cluster) {
  Cluster &c = begin_cluster(cluster);
  while (alive(c) && !grid_.stop)
    if (!step(c)) report_deadlock(c);
  for (std::unique_ptr<Resident> &r : residents_) r->active = false;
}

void Runner::add(u64 cluster) { begin_cluster(cluster); }

bool Runner::run_added() {
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
