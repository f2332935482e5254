// SPDX-License-Identifier: Apache-2.0
//
// Random histories: 3,000 in each run, a million with `./check --full --all`, in ten
// parts (tests/meson.build). CKPT_HISTORIES is their number, and CKPT_HISTORY the first seed. To
// repeat one that fails, set CKPT_HISTORIES=1 and CKPT_HISTORY to its seed.
#include "tests/unit/manager/random_history.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace ckpt;
using namespace ckpt::manager;

namespace {

constexpr u64 kDefaultCount = 3'000;

u64 number(const char *variable, u64 otherwise) {
  const char *text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("random histories keep all guarantees") {
  u64 count = number("CKPT_HISTORIES", kDefaultCount);
  u64 first = number("CKPT_HISTORY", 0);
  u64 decisions = 0, evictions = 0, denials = 0, exclusives = 0, unasked = 0, digest = 0;
  u64 stays = 0, deepenings = 0;
  for (u64 seed = first; seed < first + count; seed++) {
    History h(seed);
    std::string broken = h.run();
    REQUIRE_MESSAGE(broken.empty(), "seed " << seed << ": " << broken);
    decisions += h.decisions();
    evictions += h.evictions();
    denials += h.denials();
    exclusives += h.late_exclusives();
    unasked += h.unasked();
    stays += h.stays();
    deepenings += h.deepenings();
    digest = digest * 31 + h.digest();
  }
  MESSAGE(count << " histories, " << decisions << " decisions, " << evictions << " evictions, "
                << denials << " denials, " << stays << " stays, of which " << deepenings
                << " were given back before the resume, digest of the orders " << digest);
  if (count < 1000) return;
  // The histories contain what they are meant to test.
  CHECK(evictions > count);
  CHECK(denials > count / 10);
  CHECK(exclusives > count / 10);
  CHECK(unasked > count / 10);
  CHECK(stays > count / 10);
  CHECK(deepenings > count / 20);
}
