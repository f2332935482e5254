// SPDX-License-Identifier: Apache-2.0
//
// Lines and columns of a log.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace ckpt::schedule {

// Larger than any real cluster; larger numbers could overflow.
constexpr double kMostSeconds = 1e10, kMostMegabytes = 1e12;
constexpr unsigned kMostNodes = 1u << 24;

// Calls `each(line number, line)` for every line that is not empty; stops at its first error.
template <class F>
Result<> for_each_line(std::string_view text, F &&each) {
  for (size_t number = 1; !text.empty(); number++) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) CKPT_CHECK(each(number, line));
  }
  return {};
}

// The columns between separators; with ' ', runs of spaces and tabs separate.
inline std::vector<std::string_view> columns_of(std::string_view line, char separator) {
  std::vector<std::string_view> columns;
  if (separator != ' ') {
    for (size_t at = 0; at <= line.size();) {
      size_t end = std::min(line.find(separator, at), line.size());
      columns.push_back(line.substr(at, end - at));
      at = end + 1;
    }
    return columns;
  }
  constexpr std::string_view kSpace = " \t";
  for (size_t at = line.find_first_not_of(kSpace); at < line.size();) {
    size_t end = std::min(line.find_first_of(kSpace, at), line.size());
    columns.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kSpace, end);
  }
  return columns;
}

inline bool is_whole(double value) { return value == std::floor(value); }

inline std::optional<double> number_in(std::string_view column) {
  double value = 0;
  auto [end, error] = std::from_chars(column.data(), column.data() + column.size(), value);
  if (error != std::errc() || end != column.data() + column.size() ||
      !(value >= -1e18 && value <= 1e18))
    return {};
  return value;
}

}  // namespace ckpt::schedule
