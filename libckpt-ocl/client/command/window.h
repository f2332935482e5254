// SPDX-License-Identifier: Apache-2.0
//
// The window of a queue: how many of its commands may be under way
//
// A checkpoint waits for all commands that the driver has received, because no driver returns a
// command. A program may enqueue 100,000 kernels and then wait once. If all of them were in the
// driver, the checkpoint would pause the program until the last one has run. So a queue submits
// only about kAhead of work, and the rest stays in the application (deferred.h), where it does not
// delay a checkpoint.
//
//   enqueued  k k k k k k k k k k k k k k …  100,000 kernels of 0.5 ms
//             ╰── 50 ms: the driver ──╯╰── kept: memory of the application ──╯
//
// The number of commands is not a good limit: a hundred copies of 4 KiB are negligible, a hundred
// kernels of a second each are a long wait. So the window counts time. The run time of a kernel is
// unknown beforehand, but programs repeat their work: a *kind* of command (a kernel with about as
// many work-items, a copy of about as many bytes) takes about as long as before.
//
// Measuring must not slow the device down, so most commands are not measured. After every kPulse of
// estimated work the queue sends a *pulse*: a marker, whose completion says for how long the queue
// has been busy so far (Completion::busy in wire.h, measured by the proxy when the driver calls
// back). The difference between two pulses is the time of the *segment* between them:
//
//   sent      [k k k … 60 of them] p [k k k … 60] p [k k …
//   answered                       31 ms          62 ms       → k takes 0.52 ms
//
// WorkTimes spreads the time over the kinds in the segment. A kernel that was never measured counts
// as a full window: nothing follows it into the driver until it was measured. An estimate that is
// too high costs little, since smaller segments correct it sooner; a single long segment, such as
// one that waited for another queue, is forgotten after a few pulses (each takes half of the
// error).
//
// So at most kAhead and one command are under way, as long as a kernel takes as long as before. A
// kernel whose time depends on its data can exceed that, once.
//
// Cost: a command adds to two sums; a pulse, at most every 6 ms of the device's time, is a marker.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "common/base/bytes.h"

namespace ckpt::ocl {

// A kind of command, and about how many nanoseconds it takes; 0: it must be measured.
struct Work {
  u64 kind = 0;
  u64 guess = 0;
};

// Commands of one kind in a segment.
struct WorkCount {
  Work work;
  u32 count;
};

// How long the kinds of commands take on one device, in nanoseconds. Thread-safe.
class WorkTimes {
 public:
  u64 estimate(const Work &w) const;
  // The measured time of a command; 0: none was measured.
  u64 known(const Work &w) const;
  // These commands took `ns` together.
  void learn(std::span<const WorkCount> work, u64 ns);
  // The next command of this kind is measured again.
  void forget(const Work &w);
  // Another device stands for this one.
  void forget();

 private:
  double known_or_guessed(const Work &w) const;
  void spread(std::span<const WorkCount> work, double ns);
  void scale(std::span<const WorkCount> work, double factor);

  mutable std::mutex mutex_;
  std::unordered_map<u64, double> times_;
};

// The work that may be under way, and how much of it gets a pulse.
inline constexpr u64 kAhead = 50'000'000, kPulse = kAhead / 8;

// `Pulse` points to an event: finished(), and `busy`, the time in microseconds (modulo 2^32) that
// its queue had been busy when it finished; 0: unknown. Thread-safe, except that the caller sends
// and calls sent() and mark() under one lock.
template <class Pulse>
class BasicWindow {
 public:
  // Whether another command may be sent. Where no pulse is under way, one may: it brings a pulse.
  bool has_room(WorkTimes &times) {
    std::lock_guard lock(mutex_);
    settle(times);
    return segments_.empty() || ahead_ < kAhead;
  }
  // A command was sent. Returns whether a pulse must follow.
  bool sent(const Work &w, WorkTimes &times) {
    u64 ns = times.estimate(w);
    std::lock_guard lock(mutex_);
    open_.add(w);
    open_.ns += ns;
    ahead_ += ns;
    return open_.ns >= kPulse || open_.kinds == open_.work.size();
  }
  // Everything sent so far has finished when `pulse` has; null: it has finished already.
  void mark(Pulse pulse) {
    std::lock_guard lock(mutex_);
    if (pulse) {
      open_.pulse = std::move(pulse);
      segments_.push_back(std::move(open_));
    } else {
      ahead_ -= open_.ns;
    }
    open_ = {};
  }
  // Another proxy: nothing is under way, and its measurements begin at 0.
  void reset() {
    std::lock_guard lock(mutex_);
    segments_.clear();
    open_ = {};
    ahead_ = 0;
    busy_ = 0;
  }

 private:
  struct Segment {
    std::array<WorkCount, 8> work{};
    size_t kinds = 0;
    u64 ns = 0;  // estimated
    Pulse pulse{};

    std::span<const WorkCount> counts() const { return {work.data(), kinds}; }
    void add(const Work &w) {
      for (size_t i = 0; i < kinds; i++)
        if (work[i].work.kind == w.kind) {
          work[i].count++;
          return;
        }
      if (kinds < work.size()) work[kinds++] = {w, 1};
    }
    void estimate(const WorkTimes &times) {
      ns = 0;
      for (const WorkCount &c : counts()) ns += times.estimate(c.work) * c.count;
    }
  };

  void settle(WorkTimes &times) {
    if (segments_.empty() || !segments_.front().pulse->finished()) return;
    for (; !segments_.empty() && segments_.front().pulse->finished(); segments_.pop_front())
      measure(segments_.front(), times);
    open_.estimate(times);
    ahead_ = open_.ns;
    for (Segment &s : segments_) {
      s.estimate(times);
      ahead_ += s.ns;
    }
  }
  // Completions may overtake each other, and a command that the driver refused has no time.
  void measure(const Segment &s, WorkTimes &times) {
    u32 busy = s.pulse->busy;
    if (busy == 0) return;
    auto us = static_cast<i32>(busy - std::exchange(busy_, busy));
    if (us >= 0) times.learn(s.counts(), static_cast<u64>(us) * 1000);
  }

  std::mutex mutex_;
  std::deque<Segment> segments_;  // with a pulse under way
  Segment open_;
  u64 ahead_ = 0;  // the estimated time of all
  u32 busy_ = 0;   // of the last pulse that was measured
};

}  // namespace ckpt::ocl
