// SPDX-License-Identifier: Apache-2.0
//
// A device of another node cannot reach the program's memory, and the program cannot reach the
// device's. So each has a copy, and what one side changes is carried to the other side when the
// program may expect it there:
//
//   program                                   device
//   a[0] = 1            pages of the host
//   kernel<<<>>>(a)     ── Push: a[0] ──▶      device memory, at the same address
//                                             kernel writes a[1]
//   synchronise         ◀── Fetch: a[1] ──     compared with what was last equal
//   print(a[1])
//
// CUDA allows this. A device without concurrent access to managed memory
// (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0, which programs are told here) gets the
// memory with a launch, and the host gets it back when it waits for the device (CUDA programming
// guide, "Coherency and Concurrency"). Mapped page-locked memory needs a wait before the host
// reads, too; but the host may write to one part of it while a kernel reads another one.
//
// Both sides find their own changes by comparing with a second copy (changes.h). This also finds
// what system calls have written, such as read(2), which fail on write-protected memory. Only
// changed ranges travel, in units of 4 bytes, so that both sides may have changed different
// parts.
//
// While the device has managed memory, the host's pages are without access. A program that touches
// them without having waited faults, and the handler waits and fetches on its behalf: it is slow,
// but it reads what it would read on its own node. (A system call fails with EFAULT instead.)
//
// A kernel that waits for mapped memory while it runs sees the program's changes with the program's
// next call that launches, waits or asks. Ranges of at most 8 bytes arrive last, since they may be
// what says that the others are complete; among themselves they have no order. What a kernel writes
// is seen after a wait, not while it runs.
//
// Cost: a launch behind a wait compares all managed memory once, each launch all mapped memory, and
// each wait behind a launch copies all of both from the device to its node and compares it there.
// On two shared cores a launch and a wait together cost 0.5 s for each GiB.
//
// A checkpoint fetches, and saves the host's pages only. On another server both sides start with
// zeros, and the next launch sends all that is not zero.
#include "remote/cuda/client/memory/shared_memory.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/base/rounded_up.h"
#include "common/proc/faults.h"
#include "remote/cuda/changes.h"
#include "remote/cuda/client/link/gate.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u64 kPageBytes = 4096;

std::byte *host_pages(u64 address) { return reinterpret_cast<std::byte *>(address); }

// The legacy default stream has two numbers, and each context has its own.
std::pair<u64, u64> known_as(u64 stream) {
  return {context_of_stream(stream), stream == 1 ? 0 : stream};
}

u64 end_of_page(u64 address) { return rounded_up(address, kPageBytes); }

}  // namespace

SharedMemory &shared_memory() {
  static SharedMemory *const kMemory = new SharedMemory;
  return *kMemory;
}

CUresult SharedMemory::mirror(const Shared &s) {
  Writer w;
  w.put(s.device).put(s.bytes);
  return note_error(link().ask(number(Op::Mirror), s.context, {w.bytes()}));
}

CUresult SharedMemory::begin(const Allocation &device, u64 host) {
  std::lock_guard lock(mutex_);
  Shared s{device.base, device.bytes, device.context, device.sharing == Sharing::Managed,
           ZeroPages(device.bytes)};
  if (!s.then.data()) return CUDA_ERROR_OUT_OF_MEMORY;
  s.direct = link().native() && s.device == host;
  if (!s.direct)
    if (CUresult e = mirror(s); e != CUDA_SUCCESS) return e;
  if (s.managed && !s.direct) {
    watch_faults(on_fault);
    set_access(host, host + s.bytes);
  }
  count(s, 1);
  by_device_[s.device] = host;
  all_[host] = std::move(s);
  known_ = true;
  return CUDA_SUCCESS;
}

void SharedMemory::count(const Shared &s, int one) {
  if (s.direct) return;
  copied_ += one;
  if (!s.managed) mapped_ += one;
  any_ = copied_ > 0;
}

bool SharedMemory::end(u64 host) {
  std::lock_guard lock(mutex_);
  auto found = all_.find(host);
  if (found == all_.end()) return false;
  Writer w;
  w.put(found->second.device);
  if (!found->second.direct) link().send(number(Op::EndMirror), found->second.context, {w.bytes()});
  forget(found);
  return true;
}

// The server has forgotten them with the context.
void SharedMemory::end_all(u64 context) {
  std::lock_guard lock(mutex_);
  for (auto i = all_.begin(); i != all_.end();)
    i = i->second.context == context ? forget(i) : std::next(i);
}

SharedMemory::Table::iterator SharedMemory::forget(Table::iterator i) {
  count(i->second, -1);
  by_device_.erase(i->second.device);
  i = all_.erase(i);
  known_ = !all_.empty();
  return i;
}

u64 SharedMemory::on_device(u64 host, u64 bytes) const {
  if (!known_.load(std::memory_order_relaxed)) return 0;
  std::lock_guard lock(mutex_);
  auto next = all_.upper_bound(host);
  if (next == all_.begin()) return 0;
  const auto &[base, s] = *std::prev(next);
  u64 at = host - base;
  return at < s.bytes && bytes <= s.bytes - at ? s.device + at : 0;
}

bool SharedMemory::uses(u64 device, u64 bytes) const {
  if (bytes == 0 || !any_.load(std::memory_order_relaxed)) return false;
  std::lock_guard lock(mutex_);
  auto next = by_device_.lower_bound(device + bytes);
  if (next == by_device_.begin()) return false;
  const auto &[base, host] = *std::prev(next);
  return device < base + all_.at(host).bytes;
}

// Gives the pages of managed memory to the device, or takes them back. Allocations may share pages,
// but only with others that are managed.
void SharedMemory::lend(bool to_device) {
  if (std::exchange(lent_, to_device) == to_device) return;
  u64 begin = 0, end = 0;
  for (const auto &[host, s] : all_) {
    if (!s.managed || s.direct) continue;
    if (host > end_of_page(end)) {
      set_access(begin, end);
      begin = host;
    }
    end = host + s.bytes;
  }
  set_access(begin, end);
}

void SharedMemory::set_access(u64 begin, u64 end) const {
  begin = begin / kPageBytes * kPageBytes;
  int access = lent_ ? PROT_NONE : PROT_READ | PROT_WRITE;
  if (end > begin) (void)::mprotect(host_pages(begin), end_of_page(end) - begin, access);
}

CUresult SharedMemory::push_changes(u64 host, Shared &s, Writer &message, bool wait) {
  const std::byte *now = host_pages(host);
  std::byte *then = s.then.data();
  u64 gap = s.managed && streams_.empty() ? kWideGap : 0;
  CUresult e = CUDA_SUCCESS;
  auto send = [&] {
    CUresult sent = CUDA_SUCCESS;
    if (wait)
      sent = note_error(link().ask(number(Op::Push), s.context, {message.bytes()}));
    else
      link().send(number(Op::Push), s.context, {message.bytes()});
    message.clear();
    if (e == CUDA_SUCCESS) e = sent;
  };
  for_each_change(now, then, s.bytes, gap, [&](u64 at, u64 bytes) {
    for (u64 end = at + bytes; at < end; at += kPieceBytes) {
      u64 n = std::min(kPieceBytes, end - at);
      std::memcpy(then + at, now + at, n);
      message.put(s.device + at).blob(view(then + at, n));
      if (message.size() >= kPieceBytes) send();
    }
  });
  if (message.size() > 0) send();
  return e;
}

CUresult SharedMemory::push(Which which, bool wait) {
  if (mapped_ == 0 && (lent_ || which == Which::Mapped)) return CUDA_SUCCESS;
  Writer message;
  for (auto &[host, s] : all_) {
    if (s.direct || (s.managed && (lent_ || which == Which::Mapped))) continue;
    if (CUresult e = push_changes(host, s, message, wait); e != CUDA_SUCCESS) return e;
  }
  return CUDA_SUCCESS;
}

std::pair<const u64, SharedMemory::Shared> *SharedMemory::holding(u64 device, u64 bytes) {
  auto next = by_device_.upper_bound(device);
  if (next == by_device_.begin()) return nullptr;
  auto found = all_.find(std::prev(next)->second);
  u64 at = device - found->second.device;
  return at < found->second.bytes && bytes <= found->second.bytes - at ? &*found : nullptr;
}

Result<> SharedMemory::take_changes(ByteView frame) {
  Reader r(frame);
  while (r.left() > 0) {
    u64 address = r.get<u64>();
    ByteView bytes = r.raw(r.get<u32>());
    auto *s = r.ok() ? holding(address, bytes.size()) : nullptr;
    if (!s) return fail("it sent a change of memory that is not shared");
    u64 at = address - s->second.device;
    std::memcpy(host_pages(s->first) + at, bytes.data(), bytes.size());
    std::memcpy(s->second.then.data() + at, bytes.data(), bytes.size());
  }
  return {};
}

// With the pages of the host accessible.
CUresult SharedMemory::fetch() {
  if (all_.empty()) return CUDA_SUCCESS;
  bool exact = streams_.size() > 1 || host_functions_ > 0 || mapped_ > 0;
  Writer w;
  w.put(exact ? u32{0} : kWideGap);
  Link::TakeData take = [this](ByteView frame) { return take_changes(frame); };
  u64 context = all_.begin()->second.context;
  return note_error(link().ask(number(Op::Fetch), context, {w.bytes()}, take));
}

CUresult SharedMemory::before_work(u64 stream) {
  if (!any_.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  std::lock_guard lock(mutex_);
  CUresult e = push(Which::All);
  streams_.insert(known_as(stream));
  if (host_functions_ == 0) lend(true);
  return e;
}

CUresult SharedMemory::before_wait() {
  if (!any_.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  std::lock_guard lock(mutex_);
  return streams_.empty() ? CUDA_SUCCESS : push(Which::Mapped);
}

CUresult SharedMemory::after_wait(u64 stream) {
  if (!any_.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  std::lock_guard lock(mutex_);
  if (streams_.empty()) return CUDA_SUCCESS;
  lend(false);
  CUresult e = fetch();
  if (stream == kAllStreams)
    waited_for_all_of(current_context());
  else if (stream != kEvent)
    streams_.erase(known_as(stream));
  return e;
}

void SharedMemory::waited_for_all_of(u64 context) {
  std::erase_if(streams_, [&](const auto &s) { return s.first == context; });
}

// The stream goes on once the function has returned, so the device must have the changes by then.
void SharedMemory::run_host_function(const std::function<void()> &function) {
  if (!any_.load(std::memory_order_relaxed)) return function();
  {
    std::lock_guard lock(mutex_);
    host_functions_++;
    lend(false);
    (void)fetch();
  }
  function();
  std::lock_guard lock(mutex_);
  host_functions_--;
  (void)push(Which::All, true);
  if (host_functions_ == 0 && !streams_.empty()) lend(true);
}

bool SharedMemory::on_fault(u64 address, bool mapped) {
  if (!mapped) return false;
  Inside inside;
  return shared_memory().resolve_fault(address);
}

// The program touches managed memory that the device has. What a failed kernel has left there is as
// undefined as natively, and the next call reports the error; but without a device there are no
// contents.
bool SharedMemory::resolve_fault(u64 address) {
  u64 device = on_device(address, 1);
  if (device == 0) return false;
  std::lock_guard lock(mutex_);
  auto *s = holding(device, 1);
  if (!s || !s->second.managed) return false;
  if (!lent_) return true;  // another thread was faster
  CUresult e = note_error(link().ask(number(Op::Settle), s->second.context, {}));
  lend(false);
  if (e == CUDA_SUCCESS) e = fetch();
  if (e == CUDA_SUCCESS) waited_for_all_of(s->second.context);
  if (link().lost() == CUDA_SUCCESS) return true;
  log::error("the program uses managed memory that its device had, and the device is lost: {}",
             link().why_lost());
  return false;
}

Result<> SharedMemory::settle() {
  std::lock_guard lock(mutex_);
  lend(false);
  if (streams_.empty()) return {};
  if (CUresult e = fetch(); e != CUDA_SUCCESS)
    return device_failure("cannot read the memory that the device shares", e);
  streams_.clear();
  return {};
}

Result<> SharedMemory::make_again() {
  std::lock_guard lock(mutex_);
  for (auto &[host, s] : all_) {
    s.then.clear();
    if (std::exchange(s.direct, false)) count(s, 1);
    if (s.managed) watch_faults(on_fault);
    begun_again_ = true;
    if (CUresult e = mirror(s); e != CUDA_SUCCESS)
      return device_failure("the device cannot share the program's memory", e);
  }
  return {};
}

Result<> SharedMemory::keep() { return begun_again_ ? make_again() : Result<>(); }

}  // namespace ckpt::remote::cuda
