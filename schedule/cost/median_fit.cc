// SPDX-License-Identifier: Apache-2.0
#include "schedule/cost/median_fit.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace ckpt::schedule {
namespace {

constexpr size_t kTerms = 3;
constexpr int kRounds = 25;     // the weights have settled after about fifteen
constexpr int kLoadSteps = 10;  // that are tried for the share of the load
using Row = std::array<double, kTerms>;

// Of the squared relative errors: A b = y with A symmetric.
struct NormalEquations {
  std::array<Row, kTerms> a{};
  Row y{};
};

struct Weighted {
  SizedSample sample;  // without the slowdown by the load
  double weight = 1;
};

Row terms_of(const SizedSample &s) {
  return {s.megabytes / s.seconds, s.stored_megabytes / s.seconds, 1 / s.seconds};
}

NormalEquations equations_of(std::span<const Weighted> samples) {
  NormalEquations e;
  for (const Weighted &w : samples) {
    Row t = terms_of(w.sample);
    for (size_t i = 0; i < kTerms; i++) {
      for (size_t k = 0; k < kTerms; k++) e.a[i][k] += w.weight * t[i] * t[k];
      e.y[i] += w.weight * t[i];
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

double relative(const SizedCost &c, const SizedSample &s) {
  return c.at(s.megabytes, s.stored_megabytes) / s.seconds;
}

template <typename Error>
double sum_of(std::span<const Weighted> samples, Error error) {
  double sum = 0;
  for (const Weighted &w : samples) sum += error(w);
  return sum;
}

// The least sum of weighted squares. With three terms all choices of those that are not zero can be
// tried.
SizedCost fit_squares(std::span<const Weighted> samples) {
  NormalEquations e = equations_of(samples);
  SizedCost best;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned used = 1; used < 1u << kTerms; used++) {
    std::optional<Row> b = solve(e, used);
    if (!b || (*b)[0] < 0 || (*b)[1] < 0 || (*b)[2] < 0) continue;
    SizedCost c{(*b)[0], (*b)[1], (*b)[2]};
    double errors = sum_of(samples, [&](const Weighted &w) {
      return w.weight * std::pow(relative(c, w.sample) - 1, 2);
    });
    if (errors < least) {
      least = errors;
      best = c;
    }
  }
  return best;
}

double log_error(const SizedCost &c, const SizedSample &s) {
  constexpr double kLeast = 1e-9;
  return std::abs(std::log(std::max(relative(c, s), kLeast)));
}

// With which the weighted square has the slope of log_error(): 1 / predicted.
double weight_of(const SizedCost &c, const SizedSample &s) {
  constexpr double kClose = 1e-3, kLeast = 1e-9;
  double predicted = std::max(relative(c, s), kLeast);
  return 1 / (predicted * std::max(std::abs(predicted - 1), kClose));
}

struct Fit {
  SizedCost cost;
  double errors = std::numeric_limits<double>::infinity();
};

// Iteratively reweighted least squares (Holland and Welsch 1977). A round may be worse than the one
// before, so the best one counts.
Fit fit_logarithms(std::vector<Weighted> samples) {
  Fit best;
  for (int round = 0; round < kRounds; round++) {
    Fit fit{fit_squares(samples), 0};
    fit.errors = sum_of(samples, [&](const Weighted &w) { return log_error(fit.cost, w.sample); });
    if (fit.errors < best.errors) best = fit;
    for (Weighted &w : samples) w.weight = weight_of(fit.cost, w.sample);
  }
  return best;
}

std::vector<Weighted> without_load(std::span<const SizedSample> samples, const SizedCost &c) {
  std::vector<Weighted> idle;
  for (SizedSample s : samples) {
    s.seconds /= c.slowdown(s.load);
    if (s.seconds > 0) idle.push_back({s});
  }
  return idle;
}

}  // namespace

SizedCost fit_median(std::span<const SizedSample> samples) {
  Fit best;
  for (int step = 0; step <= kLoadSteps; step++) {
    SizedCost load{.of_load = static_cast<double>(step) / kLoadSteps};
    Fit fit = fit_logarithms(without_load(samples, load));
    fit.cost.of_load = load.of_load;
    constexpr double kGain = 1 - 1e-6;  // what makes no difference is not fitted
    if (step == 0 || fit.errors < best.errors * kGain) best = fit;
  }
  return best.cost;
}

}  // namespace ckpt::schedule
