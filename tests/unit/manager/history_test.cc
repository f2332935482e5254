// SPDX-License-Identifier: Apache-2.0
//
// Random histories: thousands each day, a million with `./check --full` or CKPT_HISTORIES=1000000.
// A history that fails is run again by its seed: CKPT_HISTORY=SEED.
#include "tests/unit/manager/history.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace ckpt;
using namespace ckpt::manager;

namespace {

constexpr u64 kEveryday = 3'000;
constexpr u64 kFull = 1'000'000;

u64 number(const char *variable, u64 otherwise) {
  const char *text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("random histories keep every promise") {
  const char *full = std::getenv("CHECK_FULL");
  u64 count = number("CKPT_HISTORIES", full != nullptr && *full != '\0' ? kFull : kEveryday);
  u64 first = number("CKPT_HISTORY", 0);
  if (first != 0) count = 1;
  u64 decisions = 0, evictions = 0, denials = 0, exclusives = 0;
  for (u64 seed = first; seed < first + count; seed++) {
    History h(seed);
    std::string broken = h.run();
    REQUIRE_MESSAGE(broken.empty(), "seed " << seed << ": " << broken);
    decisions += h.decisions();
    evictions += h.evictions();
    denials += h.denials();
    exclusives += h.late_exclusives();
  }
  MESSAGE(count << " histories, " << decisions << " decisions, " << evictions << " evictions, "
                << denials << " denials");
  if (count == 1) return;
  // They do what they are about.
  CHECK(evictions > count);
  CHECK(denials > count / 10);
  CHECK(exclusives > count / 10);
}
