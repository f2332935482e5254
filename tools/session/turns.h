// SPDX-License-Identifier: Apache-2.0
//
// Which program ckpt-dump --all dumps, or ckpt-restore --all restores, next, so that no user's
// programs use up the time of another user's: their devices may hang, their files may be locked,
// and a machine waits for its shutdown for some minutes only.
//
//   slots    Few programs are worked on at a time. The next one is of the user who has the fewest,
//            so users take turns. Work that takes long keeps its slot only while no other user
//            waits.
//   time     Each user's programs may have so much time together, from the first one on. What is
//            not done by then is given up.
//
// Pure: it is told the time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include "common/base/clock.h"

namespace ckpt::tools {

class Turns {
 public:
  using Time = Clock::time_point;
  struct Limits {
    size_t slots = 4;
    std::chrono::seconds long_work{20};
    std::optional<std::chrono::seconds> user_time = {};  // none: no limit
  };
  // `users`: those of the programs, which are known by their places in it.
  Turns(std::vector<uid_t> users, Limits limits);

  // A program that is begun with now; no value: none, until wake() or the end of another one.
  std::optional<size_t> next(Time now);
  void ended(size_t program);
  struct GivenUp {
    size_t program;
    bool under_way;  // it must be cancelled; it has ended with ended()
  };
  // Programs whose user's time is over, each of them once.
  std::vector<GivenUp> give_up(Time now);
  // When next() or give_up() may have something new; no value: never.
  std::optional<Time> wake(Time now) const;
  bool all_ended() const;

 private:
  enum class State { Waiting, UnderWay, Cancelled, Ended };
  struct Program {
    uid_t user;
    State state = State::Waiting;
    Time since{};
  };
  size_t under_way(uid_t user) const;
  size_t slots_in_use(uid_t for_user, Time now) const;
  std::optional<Time> end_of(uid_t user) const;

  Limits limits_;
  std::vector<Program> programs_;
  std::map<uid_t, Time> began_;  // when the first one of a user's programs did
};

}  // namespace ckpt::tools
