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

void Runner::begin(Resident &r, u64 linear) {
  Block &b = r.block;
  r.active = true;
  b.linear = linear;
  b.index = {static_cast<u32>(linear % grid_.grid.x),
             static_cast<u32>(linear / grid_.grid.x % grid_.grid.y),
             static_cast<u32>(linear / grid_.grid.x / grid_.grid.y)};
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
  w.groups.assign(1, Group{f, 0, w.lanes});
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

void Runner::report_deadlock(Block &b) {
  for (std::unique_ptr<Warp> &w : b.warps)
    for (Group &g : w->groups) {
      std::string_view at = g.state == GroupState::BlockBarrier ? "a barrier of the block"
                                                                : "other lanes of its warp";
      return grid_.fail(
          FaultKind::Deadlock,
          fmt::format(
              "{}: PTX line {}: warp {} of block ({},{},{}) waits for {} and nobody can come",
              g.frame->code->name, g.frame->code->ops[g.pc].line, w->index, b.index.x, b.index.y,
              b.index.z, at));
    }
}

void Runner::run(u64 linear) {
  Resident &r = resident();
  begin(r, linear);
  while (r.block.live > 0 && !grid_.stop)
    if (!step(r.block)) report_deadlock(r.block);
  r.active = false;
}

void Runner::add(u64 linear) { begin(resident(), linear); }

bool Runner::run_added() {
  bool any = false, moved = false;
  for (std::unique_ptr<Resident> &r : residents_) {
    if (!r->active || grid_.stop) continue;
    if (r->block.live == 0) {
      r->active = false;
      continue;
    }
    any = true;
    if (step(r->block))
      moved = true;
    else
      report_deadlock(r->block);
  }
  return any && moved && !grid_.stop;
}

}  // namespace ckpt::softcuda::vm
