// SPDX-License-Identifier: Apache-2.0
//
// Which kinds of programs gain by sharing a GPU, as their progress shows it. Of each kind it keeps
// how many device calls a second it makes alone, and beside each other kind; where both together
// get less done than one after the other (1/a + 1/b < 1, a and b their slowdowns), they are kept
// apart. Two that nobody has seen together are tried.
//
// A rate counts once enough is known of it (kLeastCalls, kLeastReports). What was found is not
// believed for ever: after kAgain times as long as it was measured for, the two are tried again, so
// that an error costs what it costs once in so long.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/bytes.h"
#include "manager/policy/time.h"

namespace ckpt::manager {

using KindIndex = u32;
inline constexpr KindIndex kNoKind = ~0u;

class Pairs {
 public:
  // `report`: how often programs tell of their progress.
  explicit Pairs(Time report) : report_(report) {}

  // A kind of program by its hash, which is not 0. The one that was used longest ago makes room.
  KindIndex index_of(Time now, u64 hash, const std::string &name);
  // One of `who` has made so many calls in that time, alone (kNoKind) or beside one of the other.
  void measured(Time now, KindIndex who, KindIndex other, u64 calls, Time time);
  // 1/a + 1/b; no value: not enough is known.
  std::optional<double> together(KindIndex a, KindIndex b) const;
  // They are known to lose, and are not to be tried again yet.
  bool apart(Time now, KindIndex a, KindIndex b) const;
  // All is known but how fast `a` is alone: it is worth a moment to find out. Not for longer than
  // kMostAlone for each kind, and no more of all time than a hundredth and kFirstAlone, or what is
  // learned would cost more than it gives.
  bool wants_alone(Time now, KindIndex a, KindIndex b);

  // One of its kind has come to its end after so many calls.
  void over(KindIndex kind, u64 calls);
  // How many that usually are; 0: not known.
  u64 whole(KindIndex kind) const { return kind < kinds_.size() ? kinds_[kind].whole : 0; }

  struct Finding {
    std::string a, b;  // names
    double together;
    bool apart;
  };
  std::vector<Finding> findings(Time now) const;

 private:
  // The last stretches. Their median is the rate: a program that prepares its data for a while, or
  // waits for something, is not slow by it.
  struct Rate {
    struct Piece {
      float calls = 0, seconds = 0;
      float rate() const { return calls / seconds; }
    };
    std::vector<Piece> pieces;
    size_t next = 0;  // which is replaced, when there are kMostPieces
    double calls = 0, seconds = 0, per_second = 0;
    void add(Piece piece);
  };
  struct Beside {
    Rate rate;
    bool poor = false, judged = false;
    Time apart_until{0};
  };
  struct Kind {
    u64 hash = 0;
    std::string name;
    Rate alone;
    std::vector<Beside> beside;  // by the other's index
    u64 whole = 0;
    Time used{0};
    std::optional<Time> alone_since;  // when it was first kept alone to be measured
  };
  const Beside *beside(KindIndex a, KindIndex b) const;
  Beside &beside(KindIndex a, KindIndex b);
  bool enough(const Rate &r) const;
  bool both_known(KindIndex a, KindIndex b) const;
  void judge(Time now, KindIndex a, KindIndex b, bool fresh);
  void forget(KindIndex kind);

  Time report_;
  Time first_alone_{0}, last_alone_{0}, spent_alone_{0};
  std::vector<Kind> kinds_;
  std::unordered_map<u64, KindIndex> index_;
};

}  // namespace ckpt::manager
