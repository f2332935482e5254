// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/resources.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ckpt::tools {
namespace {

// More is a mistake; sums and products of counts stay in range.
constexpr unsigned kMostCount = 1u << 31, kMostGpus = 1 << 12;

std::string_view next_word(std::string_view &list) {
  std::string_view word = list.substr(0, list.find(','));
  list.remove_prefix(std::min(word.size() + 1, list.size()));
  return word;
}

// Slurm appends the unit, and a number without one is in megabytes.
double megabytes_in(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value >= 0 && value < 1e15)) return 0;
  constexpr std::string_view kUnits = "KMGTP";
  size_t unit = end != text.data() + text.size() ? kUnits.find(*end) : kUnits.npos;
  return unit == kUnits.npos ? value : value * std::pow(1024, static_cast<double>(unit) - 1);
}

void remove(std::string_view &text, std::string_view prefix) {
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
}

}  // namespace

unsigned count_in(std::string_view text) {
  unsigned value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > kMostCount) return 0;
  return value;
}

schedule::Resources resources_in(std::string_view tres) {
  schedule::Resources r;
  while (!tres.empty()) {
    std::string_view word = next_word(tres);
    std::string_view name = word.substr(0, word.find('='));
    std::string_view value = word.substr(std::min(name.size() + 1, word.size()));
    if (name == "cpu") r.cores = std::max(1u, count_in(value));
    if (name == "mem") r.megabytes = megabytes_in(value);
    if (name == "gres/gpu") r.gpus = count_in(value);
  }
  return r;
}

unsigned gpus_in(std::string_view gres) {
  unsigned sum = 0;
  // Sockets and indices stand in parentheses, which may contain commas.
  for (int depth = 0; !gres.empty();) {
    std::string_view word = next_word(gres);
    const bool inside = depth > 0;
    for (char c : word) depth += (c == '(') - (c == ')');
    if (inside) continue;
    word = word.substr(0, word.find('('));
    remove(word, "gres:");
    remove(word, "gres/");
    if (word != "gpu" && !word.starts_with("gpu:") && !word.starts_with("gpu=")) continue;
    std::string_view last = word.substr(word.find_last_of(":=") + 1);
    // "gpu" and "gpu:a100" are one.
    const bool counted = word != "gpu" && !last.empty() && last[0] >= '0' && last[0] <= '9';
    sum = std::min(kMostGpus, sum + (counted ? count_in(last) : 1));
  }
  return sum;
}

}  // namespace ckpt::tools
