// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/laps.h"

#include <time.h>

#include <fmt/format.h>

namespace ckpt::tools {
namespace {

constexpr std::array<const char *, Laps::kParts> kPartNames = {"read", "parse", "plan", "write"};

double seconds_by(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

Laps::Times Laps::now() {
  return {seconds_by(CLOCK_MONOTONIC), seconds_by(CLOCK_PROCESS_CPUTIME_ID)};
}

void Laps::add(Part part) {
  const Times t = now();
  parts_[part].passed += t.passed - last_.passed;
  parts_[part].processor += t.processor - last_.processor;
  last_ = t;
}

std::string Laps::text() const {
  std::string text;
  for (size_t i = 0; i < kParts; i++)
    text += fmt::format("{}{} {:.3f} ({:.3f})", i ? ", " : "", kPartNames[i], parts_[i].passed,
                        parts_[i].processor);
  return text;
}

}  // namespace ckpt::tools
