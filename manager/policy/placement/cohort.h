// SPDX-License-Identifier: Apache-2.0
//
// Programs that have arrived together. Between them the order of arrival says nothing, so that one
// goes next which a GPU has most use for.
//
// The problem. A hundred programs are started at once. In order of arrival, a program that mostly
// copies is often alone, or with its like, on a GPU; its kernels' engine then is idle, because the
// next one in order does not fit beside it. In the end the last programs leave some GPUs early.
//
// An example. One that computes (30 of 72 MiB) is on a GPU. Three wait: A computes (30), B copies
// (36), C copies (22).
//     B joins: it keeps the bus busy, and needs more room than C, which fits in more places.
//     The one that computes ends. A joins, because without it B would be alone. Then C waits, as B
//     copies already, until B ends.
//
// The algorithm. A cohort is the waiting programs of one priority that arrived within
// Settings::starvation_limit of the first one in order. Of the GPUs, that with the fewest programs
// chooses:
//   1. programs that need a GPU for themselves, so that they follow each other on one that is
//   empty;
//   2. programs of which nothing is known (Role::Unknown), in order of arrival: they go wherever
//      they fit, at once. Only while one of the same workload has just started, and will be known
//      in a moment, the others come last;
//   3. by the roles of the programs that are there: first one that computes, then one that copies.
// Among equals, where one copies: the one goes first that leaves room for the next one that
// computes. Otherwise the engine is idle whenever one ends, because the next one copies its data in
// only then, against the one that copies all the time. Then the one that computes longest, because
// it ends most seldom. Where none copies, the one goes first that needs most memory; among the last
// ones, the one that has most to compute, so that the GPUs end together. When there are no more of
// them than GPUs, they share GPUs, where least is left: what ends last can move to an idle GPU
// (eviction/rebalance.h).
//
// Waiting. A program waits although it fits in two cases, each of them for a known reason and for a
// bounded time: it computes (or copies), and another one like it keeps that GPU's engine (or bus)
// busy, as the driver's samples say (is_busy()); or it copies, and only programs that copy are
// there, one of which is about to be exchanged for one that computes (exchange_is_due()). Where the
// driver has reported nothing of its workload, it does not wait.
//
// The contention model of a node (Settings::links) judges copies in another way, so that there are
// no cohorts with it.
//
// Fairness. A member is passed over only by other members, and no program joins a cohort later than
// Settings::starvation_limit after its first one, so each is passed over by finitely many.
//
// Cost. At most kMostMembers programs for each GPU, and a few passes over all programs; nothing is
// kept between decisions.
#pragma once

#include <optional>
#include <span>
#include <tuple>

#include "manager/policy/placement/placement.h"
#include "manager/policy/profile/work.h"

namespace ckpt::manager {

class Cohort {
 public:
  using Members = std::vector<Program *>;

  Cohort(State &state, Placement &placement, const Work &work)
      : state_(state), placement_(placement), work_(work) {}

  // Of the waiting programs, which are in order; empty: that order holds.
  Members members(std::span<Program *const> waiting) const;
  struct Place {
    Program *program = nullptr;
    GpuIndex gpu = kNoGpu;
  };
  // The next one to be placed; no value: none may go anywhere now.
  std::optional<Place> next(const Members &members);

 private:
  enum class There : u8;
  static There there(const GpuAccount &account, size_t waiting, size_t gpus);
  struct Choice;
  struct Round {
    static constexpr u64 kNone = ~u64{0};
    Round(const State &state, const Members &all);
    bool is_known_soon(const Program &p) const;
    void note_need(const Program &p);
    const Members &members;  // that still wait
    bool near_end;           // there are no more of them than GPUs
    // The program that needs least of those that compute; its need, and that of the next one.
    const Program *least = nullptr;
    u64 least_need = kNone, second_need = kNone;
    std::vector<ProfileIndex> fresh;  // of programs that have just started
  };
  // What is wanted, what is left (for the last ones), the room, the size, what is left.
  using Rank = std::tuple<int, Time, bool, u64, Time>;

  bool is_ready(const Program &p) const;
  std::optional<Place> choose(const Round &round);
  Program *best_on(GpuIndex g, const Round &round);
  Rank rank_of(const Program &p, const Choice &here, const Round &round) const;
  bool leaves_room(const Program &p, const GpuAccount &account, const Round &round) const;
  Time left_on(GpuIndex g) const;
  bool fits_better_elsewhere(const Program &p, GpuIndex g);
  bool is_busy(GpuIndex g) const;
  bool keeps_busy(const Program &p) const;
  bool exchange_is_due(GpuIndex g, const Members &members) const;

  State &state_;
  Placement &placement_;
  const Work &work_;
};

}  // namespace ckpt::manager
