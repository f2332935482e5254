// SPDX-License-Identifier: Apache-2.0
//
// Comma-separated values with a header line that names the columns. No value is quoted.
#pragma once

#include <algorithm>

#include "schedule/trace/lines.h"

namespace ckpt::schedule {

class CsvRow {
 public:
  Result<> set_header(std::string_view line) {
    if (line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);  // some editors' mark of UTF-8
    names_ = values_of(line);
    for (std::string_view name : names_)
      if (std::ranges::count(names_, name) > 1)
        return fail("line 1: the column {} is there twice", name);
    return {};
  }
  bool has_header() const { return !names_.empty(); }
  Result<> set_row(size_t number, std::string_view line) {
    number_ = number;
    row_ = values_of(line);
    if (row_.size() != names_.size())
      return fail("line {}: {} columns instead of {}", number, row_.size(), names_.size());
    return {};
  }
  bool has(std::string_view name) const { return at(name) != names_.end(); }
  Result<std::string_view> text(std::string_view name) const {
    if (!has(name)) return fail("line 1: there is no column {}", name);
    return row_[static_cast<size_t>(at(name) - names_.begin())];
  }
  // Empty if the column is.
  Result<std::optional<double>> number(std::string_view name) const {
    CKPT_TRY(std::string_view column, text(name));
    if (column.empty()) return std::optional<double>();
    std::optional<double> value = number_in(column);
    if (!value) return fail("line {}: column {} is not a number", number_, name);
    return value;
  }

 private:
  static std::vector<std::string_view> values_of(std::string_view line) {
    std::vector<std::string_view> values = columns_of(line, ',');
    for (std::string_view &v : values) {
      v = v.substr(0, v.find_last_not_of(" \t") + 1);  // npos + 1 is 0
      v.remove_prefix(std::min(v.find_first_not_of(" \t"), v.size()));
    }
    return values;
  }
  std::vector<std::string_view>::const_iterator at(std::string_view name) const {
    return std::find(names_.begin(), names_.end(), name);
  }

  size_t number_ = 0;
  std::vector<std::string_view> names_, row_;
};

// Calls `each(line number, row)` for every line after the header; stops at its first error.
template <class F>
Result<> for_each_row(std::string_view text, F &&each) {
  CsvRow row;
  return for_each_line(text, [&](size_t number, std::string_view line) -> Result<> {
    if (!row.has_header()) return row.set_header(line);
    CKPT_CHECK(row.set_row(number, line));
    return each(number, row);
  });
}

}  // namespace ckpt::schedule
