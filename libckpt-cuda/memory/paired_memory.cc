// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/paired_memory.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "common/base/log.h"
#include "common/proc/faults.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/entry/streams.h"

namespace ckpt::cuda {
namespace {

using std::chrono::milliseconds;

// As lifecycle/quiesce.cc has it: how long a fault waits alone, and for how long it then lets
// others submit work.
constexpr milliseconds kAloneStep{20};
constexpr milliseconds kSharedStep{1};

thread_local int work_depth = 0;       // this thread holds `submit_`, shared
thread_local bool lend_after = false;  // the driver has touched such memory in this call
thread_local bool in_host_function = false;
thread_local bool resolving = false;

bool on_fault(u64 address, bool) { return paired_memory().resolve_fault(address); }

void touch_for_a_call(unsigned long begin, size_t bytes, bool write) {
  paired_memory().touch(begin, bytes, write);
}

// Names the function to the library of touch/touch.cc, if the program has it.
void offer_to_touch() {
  using Offer = void (*)(void (*)(unsigned long, size_t, bool));
  if (auto offer = reinterpret_cast<Offer>(::dlsym(RTLD_DEFAULT, "ckpt_touch_with")))
    offer(touch_for_a_call);
}

CUresult no_pages() {
  log::warn("managed memory: the system gives no memory for the host's side of it");
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

PairedMemory &paired_memory() {
  static PairedMemory *const kMemory = new PairedMemory;
  return *kMemory;
}

Memory &paired_blocks() {
  static Memory *const kBlocks = [] {
    auto *blocks = new Memory(Memory::Reach::EveryDevice);
    blocks->keep_no_blocks();
    return blocks;
  }();
  return *kBlocks;
}

// ---- allocations

CUresult PairedMemory::start_threads() {
  if (has_threads_) return CUDA_SUCCESS;
  if (!copier_.start() || !waiter_.start()) return CUDA_ERROR_OUT_OF_MEMORY;
  has_threads_ = true;
  offer_to_touch();
  // Its calls are for memory that no capture records (cudaStreamCaptureModeRelaxed).
  copier_.run([] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (driver().cuThreadExchangeStreamCaptureMode)
      (void)driver().cuThreadExchangeStreamCaptureMode(&mode);
  });
  return CUDA_SUCCESS;
}

CUresult PairedMemory::add_pages(const Allocation &a) {
  u64 bytes = paired_blocks().bytes_of_block(a.block);
  CUresult e = copy({{a.context, a.block, nullptr, bytes}}, Direction::ToDevice);
  if (e != CUDA_SUCCESS) return e;
  std::unique_ptr<HostPages> pages = HostPages::make(a.block, bytes);
  if (!pages) return no_pages();
  blocks_[a.block] = {std::move(pages), a.context};
  lowest_ = std::min<u64>(lowest_, a.block);
  highest_ = std::max<u64>(highest_, a.block + bytes);
  all_lent_ = false;
  return CUDA_SUCCESS;
}

// A piece of a block that had others.
CUresult PairedMemory::clear(const Allocation &a) {
  const Block &block = blocks_.at(a.block);
  std::vector<Copy> copies;
  for (u64 at = a.base, end = 0; at < a.base + a.bytes; at = end) {
    size_t part = block.pages->part_of(at);
    end = std::min(block.pages->end_of(part), a.base + a.bytes);
    if (block.pages->holder(part) == Holder::Device) {
      copies.push_back({a.context, at, nullptr, end - at});
      continue;
    }
    if (!hold(block, part, Holder::Host)) return no_pages();
    std::memset(block.pages->alias(at), 0, end - at);
  }
  return copy(copies, Direction::ToDevice);
}

CUresult PairedMemory::make_pair(const Allocation &a) {
  std::lock_guard lock(state_);
  return blocks_.contains(a.block) ? clear(a) : add_pages(a);
}

CUresult PairedMemory::allocate(const ContextInfo &context, u64 bytes, u64 &out) {
  std::lock_guard lock(allocation_);
  if (CUresult e = start_threads(); e != CUDA_SUCCESS) return e;
  u64 base = 0;
  if (CUresult e = paired_blocks().allocate(context, bytes, base); e != CUDA_SUCCESS) return e;
  CUresult e = make_pair(*paired_blocks().find(base));
  if (e != CUDA_SUCCESS) {
    paired_blocks().release(base);
    forget_dropped_blocks();
    return e;
  }
  out = base;
  any_ = true;
  watch_faults(on_fault);
  return CUDA_SUCCESS;
}

void PairedMemory::forget_dropped_blocks() {
  std::lock_guard lock(state_);
  std::erase_if(blocks_,
                [](const auto &b) { return paired_blocks().bytes_of_block(b.first) == 0; });
}

PairedMemory::Taken PairedMemory::take_block(u64 base) {
  std::lock_guard lock(state_);
  return blocks_.extract(base);
}

void PairedMemory::put_back(Taken block) {
  std::lock_guard lock(state_);
  blocks_.insert(std::move(block));
  all_lent_ = false;
}

// A launch on another thread must not copy to a block while its device memory is freed. So the
// block is taken out first, and put back if its memory is kept for later allocations.
u64 PairedMemory::release(u64 base) {
  std::lock_guard lock(allocation_);
  Taken block = take_block(paired_blocks().block_of_only(base));
  u64 freed = paired_blocks().release(base);
  if (block && paired_blocks().bytes_of_block(block.key()) != 0) put_back(std::move(block));
  return freed;
}

void PairedMemory::release_context(CUcontext context) {
  if (!any()) return;
  std::lock_guard lock(allocation_);
  std::vector<Taken> dropped;  // ends after the device memory
  {
    std::lock_guard state(state_);
    for (auto it = blocks_.begin(); it != blocks_.end();)
      if (auto at = it++; at->second.context == context) dropped.push_back(blocks_.extract(at));
    streams_.erase(context);
  }
  paired_blocks().release_context(context);
}

// A kernel of a device without access fails by itself.
void PairedMemory::reach_from(CUdevice device) {
  if (CUresult e = paired_blocks().reach_from(device); e != CUDA_SUCCESS)
    log::warn("device {} has no access to the program's managed memory: {}", device, error_name(e));
}

std::optional<Allocation> PairedMemory::find(u64 address) const {
  return any() ? paired_blocks().find(address) : std::nullopt;
}

bool PairedMemory::holds(u64 address, u64 bytes) const {
  std::optional<Allocation> a = find(address);
  return a && bytes <= a->bytes - (address - a->base);
}

const PairedMemory::Block *PairedMemory::block_at(u64 address) const {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return nullptr;
  const Block &b = std::prev(next)->second;
  return b.pages->contains(address) ? &b : nullptr;
}

// ---- copies

CUresult PairedMemory::stream_of(CUcontext context, CUstream &stream) {
  CUstream &known = streams_[context];
  CUresult e = CUDA_SUCCESS;
  if (known == nullptr) e = driver().cuStreamCreate(&known, CU_STREAM_NON_BLOCKING);
  stream = known;
  return e;
}

CUresult PairedMemory::start_copy(const Copy &c, Direction direction) {
  CurrentContext current(c.context);
  CUresult e = current.status();
  CUstream stream = nullptr;
  if (e == CUDA_SUCCESS) e = stream_of(c.context, stream);
  if (e != CUDA_SUCCESS) return e;
  if (c.host == nullptr) return driver().cuMemsetD8Async(c.device, 0, c.bytes, stream);
  return direction == Direction::ToDevice
             ? driver().cuMemcpyHtoDAsync_v2(c.device, c.host, c.bytes, stream)
             : driver().cuMemcpyDtoHAsync_v2(c.host, c.device, c.bytes, stream);
}

CUresult PairedMemory::copy_all(const std::vector<Copy> &copies, Direction direction) {
  CUresult e = CUDA_SUCCESS;
  for (const Copy &c : copies)
    if (e == CUDA_SUCCESS) e = start_copy(c, direction);
  for (const auto &[context, stream] : streams_) {
    CurrentContext current(context);
    CUresult ended = stream == nullptr ? CUDA_SUCCESS : driver().cuStreamSynchronize(stream);
    if (e == CUDA_SUCCESS) e = ended;
  }
  return e;
}

CUresult PairedMemory::copy(const std::vector<Copy> &copies, Direction direction) {
  CUresult e = CUDA_SUCCESS;
  if (!copies.empty()) copier_.run([&] { e = copy_all(copies, direction); });
  return e;
}

// ---- to the device

// No thread of the program writes to what is copied. Parts are copied one by one: a driver copies
// pages that are not locked by way of a buffer of its own.
void PairedMemory::close_what_host_has(const Block &block, std::vector<Copy> &copies) {
  HostPages &pages = *block.pages;
  for (size_t part = 0, end = 0; part < pages.parts(); part = end) {
    end = part + 1;
    if (pages.holder(part) == Holder::Device) continue;
    while (end < pages.parts() && pages.holder(end) != Holder::Device) end++;
    pages.close(part, end);
    for (size_t i = part; i < end; i++)
      if (u64 begin = pages.begin_of(i); pages.holder(i) == Holder::Host)
        copies.push_back({block.context, begin, pages.alias(begin), pages.end_of(i) - begin});
  }
}

// Its pages are closed. After an error, all is as it was.
void PairedMemory::end_lending(const Block &block, bool copied) {
  HostPages &pages = *block.pages;
  for (size_t part = 0; part < pages.parts(); part++)
    if (copied)
      pages.lend_closed(part);
    else
      pages.hold(part, part + 1, pages.holder(part));
}

CUresult PairedMemory::lend() {
  if (all_lent_) return CUDA_SUCCESS;
  watch_faults(on_fault);
  std::vector<Copy> copies;
  for (const auto &[base, block] : blocks_) close_what_host_has(block, copies);
  CUresult e = copy(copies, Direction::ToDevice);
  for (const auto &[base, block] : blocks_) end_lending(block, e == CUDA_SUCCESS);
  all_lent_ = e == CUDA_SUCCESS;
  return e;
}

CUresult PairedMemory::begin_work() {
  if (work_depth++ > 0) return CUDA_SUCCESS;
  submit_.lock_shared();
  works_++;
  std::lock_guard lock(state_);
  CUresult e = lend();
  if (e == CUDA_SUCCESS) return e;
  submit_.unlock_shared();
  work_depth = 0;
  return e;
}

void PairedMemory::end_work() {
  if (--work_depth > 0) return;
  submit_.unlock_shared();
  if (!std::exchange(lend_after, false)) return;
  std::lock_guard lock(state_);
  if (CUresult e = lend(); e != CUDA_SUCCESS)
    log::error("managed memory cannot be given to the device: {}", error_name(e));
}

void PairedMemory::host_function_begins() {
  ++host_functions_;
  in_host_function = true;
}

void PairedMemory::host_function_ends() {
  in_host_function = false;
  --host_functions_;
  if (!any()) return;
  std::lock_guard lock(state_);
  if (CUresult e = lend(); e != CUDA_SUCCESS)
    log::error(
        "what a host function has changed in managed memory cannot be given to the device: {}",
        error_name(e));
}

// ---- to the host

// False: there may be too many mappings.
bool PairedMemory::hold(const Block &block, size_t part, Holder holder) {
  if (!block.pages->hold(part, part + 1, holder)) return false;
  if (holder != Holder::Device) all_lent_ = false;
  return true;
}

// What a failed kernel has left is undefined, natively as well, and the next call reports the
// error.
bool PairedMemory::fetch(const Block &block, size_t part) {
  u64 begin = block.pages->begin_of(part), end = block.pages->end_of(part);
  CUresult e =
      copy({{block.context, begin, block.pages->alias(begin), end - begin}}, Direction::ToHost);
  if (e != CUDA_SUCCESS)
    log::error("managed memory cannot be copied from the device: {}", error_name(e));
  return hold(block, part, Holder::Both);
}

bool PairedMemory::resolve(u64 address) {
  const Block *block = block_at(address);
  if (block == nullptr || !block->pages->shown()) return false;
  size_t part = block->pages->part_of(address);
  switch (block->pages->holder(part)) {
    case Holder::Device: return g_refusal == CUDA_SUCCESS && fetch(*block, part);
    case Holder::Both: return hold(*block, part, Holder::Host);
    case Holder::Host: return true;  // another thread was faster
  }
  return false;
}

bool PairedMemory::device_has(u64 address) {
  std::lock_guard lock(state_);
  const Block *block = block_at(address);
  return block != nullptr && block->pages->holder(block->pages->part_of(address)) == Holder::Device;
}

// During a capture nothing is waited for, because that would end the capture; what was submitted
// before it must have been waited for by the program.
void PairedMemory::wait_until_idle(SubmitLock &lock) {
  while (idle_at_ != works_ && !capturing()) {
    if (!waiter_.busy()) {
      waited_from_ = works_;
      waiter_.begin([] {
        for (const ContextInfo &c : live_contexts())
          if (CurrentContext current(c.handle); current.status() == CUDA_SUCCESS)
            (void)driver().cuCtxSynchronize();
      });
    }
    if (waiter_.wait_until(Clock::now() + kAloneStep)) {
      idle_at_ = waited_from_;
    } else if (host_functions_ > 0) {
      lock.unlock();
      std::this_thread::sleep_for(kSharedStep);
      lock.lock();
    }
  }
}

std::optional<u64> PairedMemory::first_fault(u64 begin, u64 end, bool write) {
  std::lock_guard lock(state_);
  for (u64 at = begin; at < end;) {
    const Block *block = block_at(at);
    if (block == nullptr) return {};  // no buffer of a program begins before it, or goes beyond
    size_t part = block->pages->part_of(at);
    Holder holder = block->pages->holder(part);
    if (holder == Holder::Device || (write && holder == Holder::Both)) return at;
    at = block->pages->end_of(part);
  }
  return {};
}

// The driver and this library make system calls, too, with locks held; their buffers are elsewhere.
void PairedMemory::touch(u64 begin, u64 bytes, bool write) {
  if (begin < lowest_ || begin >= highest_ || bytes > highest_ - begin) return;
  if (g_refusal == CUDA_ERROR_NOT_INITIALIZED) return;  // a forked child
  while (std::optional<u64> at = first_fault(begin, begin + bytes, write))
    if (!resolve_fault(*at)) return;
}

// Waits at the gate while the driver is checkpointed.
bool PairedMemory::resolve_fault(u64 address) {
  if (!any() || resolving || g_refusal == CUDA_ERROR_NOT_INITIALIZED) return false;
  Pass pass;
  bool within = work_depth > 0;
  if (within) submit_.unlock_shared();
  resolving = true;
  SubmitLock submit(submit_, std::defer_lock);
  if (!in_host_function) submit.lock();
  if (submit.owns_lock() && device_has(address)) wait_until_idle(submit);
  bool resolved = false;
  {
    std::lock_guard lock(state_);
    resolved = resolve(address);
  }
  if (submit.owns_lock()) submit.unlock();
  resolving = false;
  if (within) submit_.lock_shared();
  lend_after = lend_after || within;
  return resolved;
}

}  // namespace ckpt::cuda
