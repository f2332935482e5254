// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/base/printable.h"

namespace ckpt::tools {

// Text in columns that are as wide as their widest cell. The last one may be as long as it likes,
// and the others are cut.
class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void row(std::vector<std::string> cells) {
    for (std::string &cell : cells) cell = printable(cell);
    rows_.push_back(std::move(cells));
  }

  std::string text() const {
    std::vector<size_t> width(rows_[0].size());
    for (const auto &row : rows_)
      for (size_t i = 0; i < row.size(); i++)
        width[i] = std::max(width[i], std::min(row[i].size(), kWidest));
    std::string out;
    for (const auto &row : rows_) {
      for (size_t i = 0; i + 1 < row.size(); i++)
        out += fmt::format("{:<{}}  ", cut(row[i]), width[i]);
      out += row.back() + "\n";
    }
    return out;
  }

 private:
  static constexpr size_t kWidest = 44;
  static std::string cut(const std::string &cell) {
    if (cell.size() <= kWidest) return cell;
    size_t end = kWidest - 1;
    while (end > 0 && (static_cast<unsigned char>(cell[end]) & 0xc0) == 0x80) end--;
    return cell.substr(0, end) + "…";
  }
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ckpt::tools
