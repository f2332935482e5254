// SPDX-License-Identifier: Apache-2.0
//
// A figure that may be known from one side only: the cost of a move is at least the time of its
// bytes, although nothing is known of the rest. Arithmetic keeps that, and a result of which
// nothing is known stays unknown. All figures are seconds, or shares of a second, and none is
// negative where a function says so.
#pragma once

namespace ckpt::schedule {

struct Estimate {
  enum class Sense { Unknown, About, AtLeast, AtMost };
  Sense sense = Sense::Unknown;
  double value = 0;

  static Estimate about(double value) { return {Sense::About, value}; }
  static Estimate at_least(double value) { return {Sense::AtLeast, value}; }
  static Estimate at_most(double value) { return {Sense::AtMost, value}; }
  bool known() const { return sense != Sense::Unknown; }
};

Estimate operator+(const Estimate &a, const Estimate &b);
Estimate operator-(const Estimate &a, const Estimate &b);
// Of positive figures.
Estimate operator/(const Estimate &a, const Estimate &b);
// The sum of two parts of a cost, none of which is negative: if one is unknown, it is at least the
// other.
Estimate sum_of_parts(const Estimate &a, const Estimate &b);

}  // namespace ckpt::schedule
