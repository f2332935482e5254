// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/state/context_state.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "common/base/rounded_up.h"
#include "softcuda/driver/state/pools.h"

namespace ckpt::softcuda::driver {

namespace {

constexpr u64 kHeapAlign = 16;
constexpr size_t kMaxPrinted = 64u << 20;

}  // namespace

// A context may access memory of the host, of its own device, of devices that it is a peer of, and
// mappings and pools that grant access to its device.
bool Context::find(u64 address, vm::Range &out) const {
  std::optional<Allocation> a = process().memory->find(address);
  if (!a) return false;
  u32 here = 1u << device->index;
  bool writable = true;
  if (a->kind == MemoryKind::Mapping) {
    if ((a->readers & here) == 0) return false;
    writable = a->writers & here;
  } else if (a->kind == MemoryKind::Pool) {
    if (!pool_access(a->base, device->index, writable)) return false;
  } else if (a->kind == MemoryKind::Device || a->kind == MemoryKind::Imported) {
    if (a->device != static_cast<u32>(device->index) && (peers & 1u << a->device) == 0)
      return false;
  }
  bool on_host = a->kind == MemoryKind::Pinned || a->kind == MemoryKind::Registered;
  out = {a->base, a->reserved, a->host - a->base, writable, on_host};
  return true;
}

void Context::print(std::string_view text) {
  std::lock_guard lock(print_mutex_);
  if (printed_.size() < kMaxPrinted) printed_ += text;
}

void Context::show_printed() {
  std::string text;
  {
    std::lock_guard lock(print_mutex_);
    text.swap(printed_);
  }
  if (text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
}

// The heap of malloc() in kernels. The list of free ranges is on the host.
u64 Context::allocate(u64 bytes) {
  std::lock_guard lock(heap_mutex_);
  if (heap_base_ == 0) {
    std::optional<Allocation> a = process().memory->allocate(static_cast<u32>(device->index),
                                                             heap_bytes, MemoryKind::Device, this);
    if (!a) return 0;
    heap_base_ = a->base;
    heap_free_ = Spans(a->base, heap_bytes);
  }
  if (bytes == 0 || bytes > heap_bytes) return 0;
  u64 size = rounded_up(bytes, kHeapAlign);
  std::optional<u64> at = heap_free_.take(size, kHeapAlign);
  if (!at) return 0;
  heap_used_[*at] = size;
  return *at;
}

bool Context::release(u64 address) {
  std::lock_guard lock(heap_mutex_);
  auto it = heap_used_.find(address);
  if (it == heap_used_.end()) return false;
  heap_free_.give(it->first, it->second);
  heap_used_.erase(it);
  return true;
}

// The legacy default stream waits for all blocking streams, and they wait for it (CUDA driver API,
// "Stream synchronization behavior").
Point Context::submit(Stream &s, std::function<void()> work, std::vector<Point> after) {
  std::lock_guard lock(mutex);
  if (s.legacy) {
    for (Stream *other : streams)
      if ((other->flags & CU_STREAM_NON_BLOCKING) == 0) after.push_back(other->queue->last());
  } else if ((s.flags & CU_STREAM_NON_BLOCKING) == 0) {
    after.push_back(legacy.queue->last());
  }
  if (!held_behind.reached()) after.push_back(held_behind);
  // After an error the context executes nothing more.
  return s.queue->submit(
      [this, work = std::move(work)] {
        if (error == CUDA_SUCCESS) work();
      },
      std::move(after));
}

std::vector<Point> Context::all_points() {
  std::lock_guard lock(mutex);
  std::vector<Point> points{legacy.queue->last()};
  if (!held_behind.reached()) points.push_back(held_behind);
  for (Stream *s : streams) points.push_back(s->queue->last());
  points.insert(points.end(), left.begin(), left.end());
  return points;
}

void Context::hold_behind(Point point) {
  std::lock_guard lock(mutex);
  held_behind = std::move(point);
}

void Context::renew() {
  std::scoped_lock lock(mutex, print_mutex_, heap_mutex_);
  legacy.queue = std::make_shared<WorkQueue>();
  left.clear();
  printed_.clear();
  heap_base_ = 0;
  heap_used_.clear();
  peers = 0;
  error = CUDA_SUCCESS;
  inactive = false;
}

void Context::synchronize() {
  for (const Point &p : all_points()) p.wait();
  show_printed();
}

void Context::note_kernel(const Point &end) {
  constexpr size_t kMany = 64;  // streams, some of which are no more
  std::lock_guard lock(kernels_mutex_);
  if (kernels_.size() > kMany)
    std::erase_if(kernels_, [](const auto &last) { return last.second.reached(); });
  kernels_[end.queue.get()] = end;
}

void Context::wait_for_kernels() {
  std::map<const WorkQueue *, Point> running;
  {
    std::lock_guard lock(kernels_mutex_);
    running = kernels_;
  }
  for (const auto &[queue, end] : running) end.wait();
}

namespace {

// Memory that a context needs for itself: hundreds of MiB on hardware, here none by default.
bool take_own_memory(Context *c) {
  const char *mib = std::getenv("CKPT_SOFTCUDA_CONTEXT");
  u64 bytes = mib == nullptr ? 0 : std::strtoull(mib, nullptr, 10) << 20;
  u32 device = static_cast<u32>(c->device->index);
  return bytes == 0 || process().memory->allocate(device, bytes, MemoryKind::Device, c);
}

}  // namespace

Context *new_context(Device &d, unsigned flags) {
  auto c = std::make_unique<Context>();
  c->device = &d;
  if (!take_own_memory(c.get())) return nullptr;
  c->flags = flags;
  c->id = process().next_id++;
  c->legacy.context = c.get();
  c->legacy.legacy = true;
  c->legacy.id = process().next_id++;
  return process().contexts.add(c.release());
}

CUresult activate(Context &c) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (!c.inactive) return CUDA_SUCCESS;
  REQUIRE(take_own_memory(&c), CUDA_ERROR_OUT_OF_MEMORY);
  c.renew();
  return CUDA_SUCCESS;
}

}  // namespace ckpt::softcuda::driver
