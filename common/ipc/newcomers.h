// SPDX-License-Identifier: Apache-2.0
//
// The connections of a service whose peers have not been admitted yet. Every process that can reach
// the socket can make them, so their number and their time are bounded, and no source of
// connections can keep the others out: a source is a user (UNIX sockets) or an address (TCP).
//
//   enter()  waiting, silent ── spoke() ── waiting ── next(): greeting ── leave()
//
// A waiting newcomer costs the service a descriptor, a greeting one perhaps a process. So many may
// wait, and few may greet.
//
// A newcomer can always enter. If there is no room, it takes the place of a waiting one of its own
// source, if that has all that a source may have, and otherwise of the source that has the most: of
// a silent one if possible, and of the oldest.
//
// The next one to greet belongs to the source of which the fewest greet, and is the newest of it: a
// peer that speaks at once is not behind a hundred others that its address has sent before. Honest
// peers that come together wait for each other's greetings, which take a fraction of a second.
// Newcomers that greet longer than the fair time lose their place if another newcomer needs it.
//
// Pure: it is told the time.
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/clock.h"

namespace ckpt {

class Newcomers {
 public:
  using Time = Clock::time_point;
  using Id = u64;
  struct Limits {
    size_t waiting = 1024, waiting_of_source = 256;
    size_t greeting = 64, greeting_of_source = 16;
    // From the connection to the admission, whatever comes in between.
    std::chrono::milliseconds time = std::chrono::seconds(15);
    std::chrono::milliseconds fair_time = std::chrono::seconds(2);
  };
  explicit Newcomers(Limits limits) : limits_(limits) {}

  struct Entered {
    Id id = 0;
    std::optional<Id> instead_of = {};  // which has left
  };
  Entered enter(const std::string &source, Time now);
  // It has sent its first bytes.
  void spoke(Id id);
  // One that may greet from now on, and the one that it replaces.
  std::optional<Entered> next(Time now);
  // It has been admitted, or its connection has ended. Nothing, if it has left already.
  void leave(Id id);
  // Newcomers whose time is over; they have left.
  std::vector<Id> overdue(Time now);
  // When overdue() or next() has to be asked again, if nothing else happens; no value: never.
  std::optional<Time> wake();
  // When overdue() has to be.
  std::optional<Time> first_overdue() const;
  size_t greeting() const { return total_.greeting; }

 private:
  enum class State { Silent, Spoke, Greeting };
  struct Newcomer {
    Id id;
    std::string source;
    Time until;
    State state = State::Silent;
    Time greets_since{};
  };
  using List = std::list<Newcomer>;
  struct Count {
    size_t waiting = 0, greeting = 0;
  };
  Count of(const std::string &source) const;
  const std::string &largest_source(size_t Count::*count) const;
  void change(const std::string &source, size_t Count::*count, int by);
  Newcomer remove(List::iterator n);
  Id expel_waiting(const std::string &source);
  List::iterator next_to_greet();
  bool has_place(const std::string &source) const;
  List::iterator replaceable_by(const std::string &source);

  Limits limits_;
  List all_;  // the oldest first
  std::map<std::string, Count> sources_;
  Count total_;
  Id last_ = 0;
};

}  // namespace ckpt
