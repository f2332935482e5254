// SPDX-License-Identifier: Apache-2.0
//
// Random histories of jobs: 2,000 in each run, 10^5 with `./check --full` (tests/meson.build).
// CKPT_HISTORIES is their number, and CKPT_HISTORY the first seed. To repeat one that fails, set
// CKPT_HISTORIES=1 and CKPT_HISTORY to its seed, which is printed.
#include <cstdlib>

#include "tests/unit/schedule/outcome.h"

using namespace ckpt;
using namespace ckpt::schedule;

namespace {

constexpr u64 kDefaultCount = 2'000;

u64 number(const char *variable, u64 otherwise) {
  const char *text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct History {
  Workload jobs;
  std::vector<ResourceClass> of;
  PolicyName policy;
  PolicyOptions options;
};

History random_history(u64 seed) {
  std::mt19937 chance(static_cast<u32>(seed));
  History h{random_workload(chance),
            classes(16, 16, static_cast<double>(chance() % 60)),
            static_cast<PolicyName>(chance() % 5),
            {}};
  h.options.charge = static_cast<Charge>(chance() % 2);
  h.options.regions = static_cast<Regions>(chance() % 3);
  h.options.shorten_last = chance() % 2 == 0;
  h.options.final_restore = chance() % 2 == 0;
  h.options.overestimate = chance() % 2 == 0 ? 1 : 3;
  return h;
}

// First come, first served: jobs that are submitted later change nothing for those before them.
void check_order(const History &h, const Outcome &whole) {
  Workload first = h.jobs;
  first.jobs.resize(first.jobs.size() / 2);
  Result<Outcome> half = simulate(first, h.of, h.policy, h.options);
  REQUIRE(half);
  for (size_t i = 0; i < first.jobs.size(); i++) {
    REQUIRE(half->jobs[i].start == whole.jobs[i].start);
    REQUIRE(half->jobs[i].end == whole.jobs[i].end);
    REQUIRE(half->jobs[i].moves == whole.jobs[i].moves);
  }
}

}  // namespace

TEST_CASE("random histories: no job is lost, delayed by a later one, or on a node that is in use") {
  u64 count = number("CKPT_HISTORIES", kDefaultCount);
  u64 first = number("CKPT_HISTORY", 0);
  u64 moves = 0;
  for (u64 seed = first; seed < first + count; seed++) {
    INFO("seed ", seed);
    History h = random_history(seed);
    Result<Outcome> o = simulate(h.jobs, h.of, h.policy, h.options);
    REQUIRE(o);
    check_nodes(h.jobs, h.of, *o);
    check_jobs(h.jobs, *o);
    check_order(h, *o);
    for (const JobResult &r : o->jobs) moves += r.moves;
  }
  MESSAGE(count << " histories from seed " << first << ", " << moves << " moves");
  if (count >= 1000) CHECK(moves > count);  // they contain what they are meant to test
}
