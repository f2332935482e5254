// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/event_board.h"

namespace ckpt {

static_assert(std::atomic<u64>::is_always_lock_free);

struct EventBoard::Counter {
  std::atomic<u64> done;   // written by devices
  std::atomic<u64> begun;  // the value of the last recording
  std::atomic<u64> owner;  // 0: none
  u64 unused;
};

struct EventBoard::Slot {
  std::atomic<u64> owner;  // 0: the slot is free
  std::atomic<u64> name;   // 0: it is free, or being filled
  std::atomic<Recording> last;
  u64 unused;
};

// Zero at first.
struct EventBoard::Layout {
  Counter counters[kCounters];
  Slot slots[kSlots];
};

size_t EventBoard::bytes() { return sizeof(Layout); }

Result<UniqueFd> EventBoard::make() { return make_memfd("ckpt-events", sizeof(Layout)); }

Result<EventBoard> EventBoard::map(int fd) {
  CKPT_TRY(Mapping mapping, Mapping::map(fd, sizeof(Layout)));
  return EventBoard(std::move(mapping));
}

EventBoard::Layout &EventBoard::layout() const {
  return *reinterpret_cast<Layout *>(mapping_.data());
}
EventBoard::Counter &EventBoard::counter(Recording r) const {
  return layout().counters[r % kCounters];
}
EventBoard::Slot &EventBoard::slot(u32 number) const { return layout().slots[number % kSlots]; }

u64 EventBoard::offset_of(Recording r) { return r % kCounters * sizeof(Counter); }

std::optional<u32> EventBoard::take_counter(u64 owner) {
  for (u32 i = 0; i < kCounters; i++) {
    u32 number = next_counter_++ % kCounters;
    u64 none = 0;
    if (counter(number).owner.compare_exchange_strong(none, owner)) return number;
  }
  return {};
}

bool EventBoard::is_free(u32 number) const { return counter(number).done >= counter(number).begun; }

EventBoard::Recording EventBoard::begin(u32 number) {
  return ++counter(number).begun * kCounters + number % kCounters;
}

bool EventBoard::is_complete(Recording r) const { return counter(r).done >= value_of(r); }

void EventBoard::complete(Recording r) {
  std::atomic<u64> &done = counter(r).done;
  for (u64 now = done; now < value_of(r) && !done.compare_exchange_weak(now, value_of(r));) {
  }
}

void EventBoard::give_back_counters(u64 owner) {
  for (Counter &c : layout().counters) {
    if (c.owner != owner) continue;
    c.done = c.begun.load();
    c.owner = 0;
  }
}

std::optional<u32> EventBoard::add_event(u64 owner, u64 name, Recording last) {
  for (u32 i = 0; i < kSlots; i++) {
    u32 number = next_slot_++ % kSlots;
    u64 none = 0;
    if (!slot(number).owner.compare_exchange_strong(none, owner)) continue;
    slot(number).last = last;
    slot(number).name = name;
    return number;
  }
  return {};
}

bool EventBoard::add_event_again(u32 number, u64 owner, u64 name) {
  Slot &s = slot(number);
  u64 none = 0;
  if (s.owner.compare_exchange_strong(none, owner)) s.name = name;
  return s.owner == owner && s.name == name;
}

void EventBoard::remove_event(u32 number, u64 name) {
  Slot &s = slot(number);
  if (!s.name.compare_exchange_strong(name, 0)) return;
  s.last = 0;
  s.owner = 0;
}

u64 EventBoard::owner_of(u32 number, u64 name) const {
  u64 owner = slot(number).owner;
  return slot(number).name == name ? owner : 0;
}

// The slot may get another event between the two reads.
EventBoard::Recording EventBoard::last(u32 number, u64 name) const {
  Recording r = slot(number).last;
  return slot(number).name == name ? r : 0;
}

void EventBoard::set_last(u32 number, u64 name, Recording r) {
  if (slot(number).name == name) slot(number).last = r;
}

void EventBoard::end_of(u64 owner) {
  give_back_counters(owner);
  for (Slot &s : layout().slots) {
    if (s.owner != owner) continue;
    s.name = 0;
    s.last = 0;
    s.owner = 0;
  }
}

}  // namespace ckpt
