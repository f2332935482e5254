// SPDX-License-Identifier: Apache-2.0
//
// The used memory of each GPU over time, as a row of bars: one for each refresh, the newest at the
// right.
#pragma once

#include <deque>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace ckpt::tools {

class MemoryGraph {
 public:
  // `utf8`: whether the terminal shows block elements (U+2581 to U+2588).
  explicit MemoryGraph(bool utf8) : utf8_(utf8) {}

  // A GPU that is not in this status is forgotten.
  void add(const nlohmann::json &status);
  // At most `columns` bars.
  std::string line(const std::string &uuid, size_t columns) const;

 private:
  bool utf8_;
  std::map<std::string, std::deque<double>> used_;  // shares of the memory, by UUID
};

// Whether the environment's locale has UTF-8 (locale(7)).
bool has_utf8_locale();

}  // namespace ckpt::tools
