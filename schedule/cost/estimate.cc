// SPDX-License-Identifier: Apache-2.0
#include "schedule/cost/estimate.h"

namespace ckpt::schedule {
namespace {

using Sense = Estimate::Sense;

Sense opposite(Sense s) {
  if (s == Sense::AtLeast) return Sense::AtMost;
  return s == Sense::AtMost ? Sense::AtLeast : s;
}

// Of a figure that grows with both.
Sense both(Sense a, Sense b) {
  if (a == Sense::About) return b;
  return b == Sense::About || a == b ? a : Sense::Unknown;
}

Estimate of(Sense sense, double value) {
  return sense == Sense::Unknown ? Estimate{} : Estimate{sense, value};
}

}  // namespace

Estimate operator+(const Estimate &a, const Estimate &b) {
  return of(both(a.sense, b.sense), a.value + b.value);
}

Estimate operator-(const Estimate &a, const Estimate &b) {
  return of(both(a.sense, opposite(b.sense)), a.value - b.value);
}

Estimate operator/(const Estimate &a, const Estimate &b) {
  return of(both(a.sense, opposite(b.sense)), a.value / b.value);
}

Estimate sum_of_parts(const Estimate &a, const Estimate &b) {
  if (a.known() == b.known()) return a + b;
  const Estimate &one = a.known() ? a : b;
  return one.sense == Sense::AtMost ? Estimate{} : Estimate::at_least(one.value);
}

}  // namespace ckpt::schedule
