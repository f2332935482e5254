// SPDX-License-Identifier: Apache-2.0
//
// Which program ckpt-dump --all dumps next, so that no user's programs use up the time of another
// user's: their devices may hang, and a machine waits for its shutdown for some minutes only.
//
//   slots    Few dumps are under way at a time. The next one is of the user who has the fewest, so
//            users take turns. A dump that takes long keeps its slot only while no other user
//            waits.
//   time     Each user's programs may have so much time together, from the first one's dump on.
//            What is not dumped by then is given up, and its program goes on.
//
// Pure: it is told the time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <vector>

namespace ckpt::tools {

class Turns {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Limits {
    size_t slots = 4;
    std::chrono::seconds long_dump{20};
    std::optional<std::chrono::seconds> user_time = {};  // none: no limit
  };
  // `users`: those of the programs, which are known by their places in it.
  Turns(std::vector<uid_t> users, Limits limits);

  // A program whose dump begins now; no value: none, until wake() or the end of another dump.
  std::optional<size_t> next(Time now);
  void ended(size_t program);
  struct GivenUp {
    size_t program;
    bool under_way;  // its dump must be cancelled; it has ended with ended()
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
  std::map<uid_t, Time> began_;  // when the first dump of a user's programs did
};

}  // namespace ckpt::tools
