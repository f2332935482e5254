// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/events/interprocess_events.h"

#include <algorithm>
#include <thread>

#include "common/base/futex.h"
#include "common/base/log.h"
#include "libckpt-cuda/memory/ipc_handle.h"
#include "libckpt-cuda/memory/physical.h"
#include "libckpt-cuda/memory/share_link.h"

namespace ckpt::cuda {
namespace {

using Origin = InterprocessEvent::Origin;
using std::chrono::microseconds;

// What the program's handle contains.
struct EventHandleFields {
  u64 magic;
  u64 name;
  u64 slot;
};
constexpr u64 kEventMagic = 0x31'65'63'70'69'74'70'6b;

// How many of our counters are looked at before another one is taken.
constexpr size_t kCountersLookedAt = 8;
// A wait for another process: spins, then sleeps, longer each time.
constexpr microseconds kEventSpin{20}, kFirstPause{20}, kLongestPause{1000};

std::optional<EventHandleFields> event_fields_of(const CUipcEventHandle &handle) {
  auto fields = ipc_fields_of<EventHandleFields>(handle, kEventMagic);
  bool sound = fields && fields->name != 0 && fields->slot < EventBoard::kSlots;
  return sound ? fields : std::nullopt;
}

}  // namespace

InterprocessEvents &interprocess_events() {
  static auto *const kEvents = new InterprocessEvents;
  return *kEvents;
}

const char *reason_against_events(CUdevice device) {
  if (const char *why = reason_against_sharing()) return why;
  int can = 0;
  driver().cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device);
  return can != 0 ? nullptr : "the device cannot wait for words of 64 bits in a stream";
}

// ---- the table

InterprocessEvents::Event InterprocessEvents::find(CUevent event) const {
  if (count_.load(std::memory_order_relaxed) == 0) return {};
  std::shared_lock lock(table_mutex_);
  auto it = table_.find(event);
  return it == table_.end() ? nullptr : it->second;
}

void InterprocessEvents::add(CUevent handle, Event e) {
  std::lock_guard lock(table_mutex_);
  table_[handle] = std::move(e);
  count_ = table_.size();
}

void InterprocessEvents::retire(const InterprocessEvent &e) {
  if (e.origin == Origin::Exported && board_) board_->remove_event(e.slot, e.name);
}

void InterprocessEvents::forget(CUevent handle) {
  std::lock_guard lock(table_mutex_);
  auto gone = table_.extract(handle);
  count_ = table_.size();
  if (!gone.empty()) retire(*gone.mapped());
}

// It takes its events and its registrations with it.
void InterprocessEvents::release_context(CUcontext context) {
  std::lock_guard lock(table_mutex_);
  std::erase_if(table_, [&](const auto &entry) {
    if (entry.second->context != context) return false;
    retire(*entry.second);
    return true;
  });
  count_ = table_.size();
  registered_in_.compare_exchange_strong(context, nullptr);
}

bool InterprocessEvents::make_private(CUevent event) {
  Event e = find(event);
  if (!e) return true;
  std::lock_guard lock(e->mutex);
  e->is_private = e->origin == Origin::Made;
  return e->is_private;
}

bool InterprocessEvents::make_private(const CUgraphNodeParams *node) {
  if (node == nullptr) return true;
  switch (node->type) {
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return make_private(node->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return make_private(node->eventWait.event);
    default: return true;
  }
}

// ---- the board

Result<> InterprocessEvents::map_board() {
  ShareLink link;
  CKPT_TRY(UniqueFd memory, link.event_board());
  CKPT_TRY(board_, EventBoard::map(memory.get()));
  had_board_ = true;
  return {};
}

CUresult InterprocessEvents::register_board() {
  ContextInfo context;
  if (CUresult e = current_context(context); e != CUDA_SUCCESS) return e;
  constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  CUresult e = driver().cuMemHostRegister_v2(board_->data(), EventBoard::bytes(), kFlags);
  if (e != CUDA_SUCCESS && e != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) return e;
  e = driver().cuMemHostGetDevicePointer_v2(&base_, board_->data(), 0);
  if (e == CUDA_SUCCESS) registered_in_ = context.handle;
  return e;
}

CUresult InterprocessEvents::reach_board() {
  if (registered_in_ != nullptr) return CUDA_SUCCESS;
  std::lock_guard lock(mutex_);
  if (registered_in_ != nullptr) return CUDA_SUCCESS;
  if (Result<> mapped = board_ ? Result<>() : map_board(); !mapped) {
    log::error(std::move(mapped).error().in("events cannot be shared"));
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  CUresult e = register_board();
  if (e != CUDA_SUCCESS)
    log::error("events cannot be shared: the driver does not register memory: {}", error_name(e));
  return e;
}

// Where the session has no more counters, waits until one of ours is free.
std::optional<EventBoard::Recording> InterprocessEvents::begin() {
  for (;; std::this_thread::sleep_for(kFirstPause)) {
    std::lock_guard lock(mutex_);
    for (size_t i = std::min(counters_.size(), kCountersLookedAt); i > 0; i--) {
      u32 counter = counters_.front();
      counters_.pop_front();
      counters_.push_back(counter);
      if (board_->is_free(counter)) return board_->begin(counter);
    }
    if (std::optional<u32> counter = board_->take_counter(process_token())) {
      counters_.push_back(*counter);
      return board_->begin(*counter);
    }
    if (counters_.empty()) return {};
  }
}

// If the exporter has destroyed an event, or has ended, the event is private to this process.
EventBoard::Recording InterprocessEvents::last(const InterprocessEvent &e) const {
  if (e.origin == Origin::Made || board_->owner_of(e.slot, e.name) == 0) return e.own;
  return board_->last(e.slot, e.name);
}

void InterprocessEvents::wait_for(Recording r) const {
  auto done = [&] { return is_complete(r); };
  if (spin_until(done, kEventSpin)) return;
  for (microseconds pause = kFirstPause; !done(); pause = std::min(2 * pause, kLongestPause))
    std::this_thread::sleep_for(pause);
}

// ---- handles

// With the event's mutex held.
CUresult InterprocessEvents::put_on_board(InterprocessEvent &e) {
  if (CUresult reached = reach_board(); reached != CUDA_SUCCESS) return reached;
  Result<ShareId> id = new_share_id();
  if (!id || (*id)[0] == 0) return CUDA_ERROR_OPERATING_SYSTEM;
  std::lock_guard lock(mutex_);
  std::optional<u32> slot = board_->add_event(process_token(), (*id)[0], e.own);
  if (!slot) return CUDA_ERROR_OUT_OF_MEMORY;
  e.name = (*id)[0];
  e.slot = *slot;
  e.origin = Origin::Exported;
  return CUDA_SUCCESS;
}

CUresult InterprocessEvents::get_handle(InterprocessEvent &e, CUipcEventHandle &out) {
  std::lock_guard lock(e.mutex);
  if (e.origin == Origin::Opened) return CUDA_ERROR_INVALID_VALUE;
  if (e.origin == Origin::Made)
    if (CUresult put = put_on_board(e); put != CUDA_SUCCESS) return put;
  out = ipc_handle_of<CUipcEventHandle>(EventHandleFields{kEventMagic, e.name, e.slot});
  return CUDA_SUCCESS;
}

CUresult InterprocessEvents::open_handle(const CUipcEventHandle &handle, const ContextInfo &context,
                                         CUevent &out) {
  std::optional<EventHandleFields> f = event_fields_of(handle);
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult reached = reach_board(); reached != CUDA_SUCCESS) return reached;
  u32 slot = static_cast<u32>(f->slot);
  u64 owner = board_->owner_of(slot, f->name);
  if (owner == 0) return CUDA_ERROR_INVALID_HANDLE;
  if (owner == process_token()) return CUDA_ERROR_INVALID_CONTEXT;
  if (CUresult e = driver().cuEventCreate(&out, CU_EVENT_DISABLE_TIMING); e != CUDA_SUCCESS)
    return e;
  auto e = std::make_shared<InterprocessEvent>();
  e->context = context.handle;
  e->name = f->name;
  e->slot = slot;
  e->origin = Origin::Opened;
  add(out, std::move(e));
  return CUDA_SUCCESS;
}

// ---- a checkpoint

Result<> InterprocessEvents::leave() {
  std::lock_guard lock(mutex_);
  if (!board_) return {};
  if (CUcontext context = registered_in_) {
    CurrentContext current(context);
    CKPT_CHECK(as_result(driver().cuMemHostUnregister(board_->data()),
                         "give back memory for events that processes share"));
    registered_in_ = nullptr;
  }
  std::shared_lock table(table_mutex_);
  for (auto &[handle, e] : table_) e->own = 0;
  board_->give_back_counters(process_token());
  counters_.clear();
  board_.reset();
  return {};
}

Result<> InterprocessEvents::arrive() {
  std::lock_guard lock(mutex_);
  if (!had_board_ || board_) return {};
  CKPT_CHECK(map_board());
  std::shared_lock table(table_mutex_);
  for (auto &[handle, e] : table_)
    if (e->origin == Origin::Exported &&
        !board_->add_event_again(e->slot, process_token(), e->name))
      return fail("another process uses the place of an event that this process shares");
  return {};
}

}  // namespace ckpt::cuda
