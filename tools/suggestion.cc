// SPDX-License-Identifier: Apache-2.0
#include "tools/suggestion.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include <fmt/format.h>

namespace ckpt::tools {
namespace {

// Longer words are no misspelt names; the distance takes time in proportion to the length.
constexpr size_t kMostLetters = 200;
constexpr size_t kFar = std::numeric_limits<size_t>::max();

std::string lower(std::string_view s) {
  std::string out(s);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// How many letters must be inserted, removed, replaced or exchanged with their neighbour. Three
// rows of the table of F. Damerau, "A technique for computer detection and correction of spelling
// errors", CACM 7 (1964), with at most one edit at each place.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); j++) last[j] = j;
  for (size_t i = 1; i <= a.size(); i++) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); j++) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

// A beginning of three letters or more counts as near, whatever follows.
size_t cost(const std::string &typed, const std::string &word) {
  constexpr size_t kBeginning = 3;
  size_t dashes = std::min(typed.find_first_not_of('-'), typed.size());
  if (typed.size() >= dashes + kBeginning && word.starts_with(typed)) return 1;
  size_t d = distance(typed, word);
  return d <= (typed.size() - dashes + 2) / 3 ? d : kFar;  // a third of the letters, as clang does
}

}  // namespace

std::string nearest(std::string_view typed, const std::vector<std::string> &words) {
  if (typed.empty() || typed.size() > kMostLetters) return {};
  std::string best;
  size_t best_cost = kFar;
  for (const std::string &word : words)
    if (size_t c = cost(lower(typed), lower(word)); c < best_cost) {
      best = word;
      best_cost = c;
    }
  return best;
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string> &words) {
  std::string word = nearest(typed, words);
  return word.empty() ? "" : fmt::format("; did you mean \"{}\"?", word);
}

}  // namespace ckpt::tools
