// SPDX-License-Identifier: Apache-2.0
//
// Random workloads, and checks of a simulation's outcome that look at the pieces alone.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "schedule/simulate/simulation.h"
#include "schedule/simulate/workload.h"

namespace ckpt::schedule {

// Classes with moves that cost `seconds_per_gb`, half of it for the checkpoint.
inline std::vector<ResourceClass> classes(unsigned fast, unsigned slow, double seconds_per_gb) {
  Line half{seconds_per_gb / 2 / 1024, 0.5};
  return {{"fast", fast, {half, half}}, {"slow", slow, {half, half}}};
}

// The nodes in use at each time at which that changes.
inline std::map<Ticks, int> use_of(const Workload &w, const Outcome &o, ClassIndex c) {
  std::map<Ticks, int> change;
  for (const RanPiece &r : o.pieces) {
    if (r.piece.on != c) continue;
    change[r.piece.begin] += static_cast<int>(w.jobs[r.job].nodes);
    change[r.piece.end] -= static_cast<int>(w.jobs[r.job].nodes);
  }
  int used = 0;
  for (auto &[t, n] : change) n = used += n;
  return change;
}

inline void check_nodes(const Workload &w, const std::vector<ResourceClass> &of, const Outcome &o) {
  for (ClassIndex c = 0; c < of.size(); c++)
    for (auto [t, used] : use_of(w, o, c)) {
      REQUIRE(used >= 0);
      REQUIRE(used <= static_cast<int>(of[c].nodes));
    }
}

// Each job does all of its work, in pieces that do not overlap, after it was submitted.
inline void check_jobs(const Workload &w, const Outcome &o) {
  std::vector<double> done(w.jobs.size());
  std::vector<Ticks> last(w.jobs.size()), spent(w.jobs.size());
  for (const RanPiece &r : o.pieces) {
    const Piece &p = r.piece;
    REQUIRE(p.begin >= std::max(last[r.job], w.jobs[r.job].submit));
    REQUIRE(p.cost.checkpoint >= 0);
    REQUIRE(p.cost.restore >= 0);
    Ticks run = p.end - p.begin - p.cost.checkpoint - p.cost.restore;
    REQUIRE(run >= 0);
    done[r.job] += static_cast<double>(run) / static_cast<double>(w.run_time(r.job, p.on));
    spent[r.job] += p.end - p.begin;
    last[r.job] = p.end;
  }
  for (size_t i = 0; i < w.jobs.size(); i++) {
    REQUIRE(done[i] >= 1 - 1e-9);
    REQUIRE(done[i] <= 1 + 3.0 / static_cast<double>(std::min(w.run_time(i, 0), w.run_time(i, 1))));
    const JobResult &r = o.jobs[i];
    REQUIRE(r.end == last[i]);
    REQUIRE(r.execution + r.migration == spent[i]);
    REQUIRE(r.wait_a + r.wait_b + spent[i] == r.turnaround(w.jobs[i]));
  }
}

inline Workload random_workload(std::mt19937 &chance) {
  SyntheticOptions o;
  o.seed = chance();
  o.jobs = 20 + chance() % 100;
  o.load = 0.3 + static_cast<double>(chance() % 100) / 70;
  o.load_of = chance() % 2 == 0 ? LoadOf::All : LoadOf::Fastest;
  o.max_nodes = 1u << chance() % 5;
  o.max_minutes = 0.1 + static_cast<double>(chance() % 100);
  o.mix = static_cast<Mix>(chance() % 3);
  o.run_times = static_cast<RunTimes>(chance() % 2);
  o.compile_seconds = static_cast<double>(chance() % 3);
  o.wait_seconds = static_cast<double>(chance() % 2);
  return synthetic_workload(o, 16, 16);
}

}  // namespace ckpt::schedule
