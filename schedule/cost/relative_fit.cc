// SPDX-License-Identifier: Apache-2.0
#include "schedule/cost/relative_fit.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace ckpt::schedule {
namespace {

constexpr size_t kTerms = 3;
using Row = std::array<double, kTerms>;

// Of the squared relative errors: A b = y with A symmetric.
struct NormalEquations {
  std::array<Row, kTerms> a{};
  Row y{};
};

Row terms_of(const SizedSample &s) {
  return {s.megabytes / s.seconds, s.stored_megabytes / s.seconds, 1 / s.seconds};
}

NormalEquations equations_of(std::span<const SizedSample> samples) {
  NormalEquations e;
  for (const SizedSample &s : samples) {
    if (s.seconds <= 0) continue;
    Row t = terms_of(s);
    for (size_t i = 0; i < kTerms; i++) {
      for (size_t k = 0; k < kTerms; k++) e.a[i][k] += t[i] * t[k];
      e.y[i] += t[i];
    }
  }
  return e;
}

// The terms without their bit in `used` become zero. No value: the others are not determined.
std::optional<Row> solve(NormalEquations e, unsigned used) {
  constexpr double kRounding = 1e-10;
  for (size_t i = 0; i < kTerms; i++) {
    if (used >> i & 1) continue;
    for (size_t k = 0; k < kTerms; k++) e.a[i][k] = e.a[k][i] = 0;
    e.a[i][i] = 1;
    e.y[i] = 0;
  }
  std::array<Row, kTerms> whole = e.a;
  for (size_t i = 0; i < kTerms; i++) {
    if (e.a[i][i] <= kRounding * whole[i][i]) return std::nullopt;
    for (size_t row = i + 1; row < kTerms; row++) {
      double f = e.a[row][i] / e.a[i][i];
      for (size_t k = i; k < kTerms; k++) e.a[row][k] -= f * e.a[i][k];
      e.y[row] -= f * e.y[i];
    }
  }
  Row b{};
  for (size_t i = kTerms; i-- > 0;) {
    b[i] = e.y[i];
    for (size_t k = i + 1; k < kTerms; k++) b[i] -= e.a[i][k] * b[k];
    b[i] /= e.a[i][i];
  }
  return b;
}

double squared_errors(std::span<const SizedSample> samples, const SizedCost &c) {
  double sum = 0;
  for (const SizedSample &s : samples)
    if (s.seconds > 0) sum += std::pow(c.at(s.megabytes, s.stored_megabytes) / s.seconds - 1, 2);
  return sum;
}

}  // namespace

// With three terms all choices of those that are not zero can be tried.
SizedCost fit_relative(std::span<const SizedSample> samples) {
  NormalEquations e = equations_of(samples);
  SizedCost best;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned used = 1; used < 1u << kTerms; used++) {
    std::optional<Row> b = solve(e, used);
    if (!b || (*b)[0] < 0 || (*b)[1] < 0 || (*b)[2] < 0) continue;
    SizedCost c{(*b)[0], (*b)[1], (*b)[2]};
    if (double errors = squared_errors(samples, c); errors < least) {
      least = errors;
      best = c;
    }
  }
  return best;
}

Line worst_case(const SizedCost &cost) {
  return {cost.per_megabyte + cost.per_stored_megabyte, cost.base};
}

}  // namespace ckpt::schedule
