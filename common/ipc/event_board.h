// SPDX-License-Identifier: Apache-2.0
//
// What processes of a session know of each other's events: which there are, and how far each
// recording is. One memory file of the session's keeper, which all of them map.
//
// The problem. A stream of one process waits for a recording in a stream of another one. No thread
// may stand between them: a thread that waits in a stream's stead can wait for one that it holds
// up. But a device can write a word of host memory when a stream reaches a place, and let a stream
// wait until a word is large enough. So a recording is a word, its *counter*, and a value: it is
// complete when the word has reached the value.
//
//   process A: record in stream 1   counter 7: begun = 5   A's device: done = 5 (in stream 1)
//              event.last = (7, 5)
//   process B: wait in stream 2     reads event.last       B's device: waits for done >= 5
//
// Counters. Streams may reach their places in another order than they were recorded in, so each
// recording that is under way has a counter of its own. A counter gets a new recording only when
// the last one is complete. Its value never falls, so whoever waits for an old value comes through
// at a later one.
//
// Events. A slot has the event's name, a random number that is in its handle, and the last
// recording by any process. The process that has made the event owns the slot.
//
// Ends. The keeper sees a process end and calls end_of(): its recordings are complete then, because
// nothing will complete them, and its events are no more.
//
// Any process may write anything here. Numbers are only compared, or used modulo a size.
#pragma once

#include <atomic>
#include <optional>

#include "common/ipc/shared_memory.h"

namespace ckpt {

class EventBoard {
 public:
  static constexpr u32 kSlots = 16384, kCounters = 16384;

  // A new board, sealed; and a process's view of it. A forked child does not inherit the view.
  static Result<UniqueFd> make();
  static Result<EventBoard> map(int fd);

  std::byte *data() const { return mapping_.data(); }
  static size_t bytes();

  // A recording: a counter and a value; 0 is none, which is complete.
  using Recording = u64;
  // A counter for `owner` alone; none: there is no more.
  std::optional<u32> take_counter(u64 owner);
  // The last recording in the counter is complete.
  bool is_free(u32 counter) const;
  // The recording is under way from now on.
  Recording begin(u32 counter);
  // For the device: where it writes or expects which value.
  static u64 offset_of(Recording r);
  static u64 value_of(Recording r) { return r / kCounters; }
  bool is_complete(Recording r) const;
  void complete(Recording r);
  // Completes what `owner` has recorded, and gives its counters back.
  void give_back_counters(u64 owner);

  // The slot of a new event; none: there is no more.
  std::optional<u32> add_event(u64 owner, u64 name, Recording last);
  // Again in this slot, after a restore. False: another event has it.
  bool add_event_again(u32 slot, u64 owner, u64 name);
  void remove_event(u32 slot, u64 name);
  // 0: there is no such event.
  u64 owner_of(u32 slot, u64 name) const;
  // None: there is no such event, or it was never recorded.
  Recording last(u32 slot, u64 name) const;
  void set_last(u32 slot, u64 name, Recording r);

  // The process has ended.
  void end_of(u64 owner);

 private:
  struct Counter;
  struct Slot;
  struct Layout;
  explicit EventBoard(Mapping mapping) : mapping_(std::move(mapping)) {}
  Layout &layout() const;
  Counter &counter(Recording r) const;
  Slot &slot(u32 number) const;

  Mapping mapping_;
  u32 next_counter_ = 0, next_slot_ = 0;  // where to look first
};

}  // namespace ckpt
