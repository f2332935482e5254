// SPDX-License-Identifier: Apache-2.0
//
// The used memory of each GPU over time, and how busy it was, as rows of bars: one for each
// refresh, the newest at the right.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace ckpt::tools {

class UsageGraph {
 public:
  enum class Of { Memory, Kernels };

  // `utf8`: whether the terminal shows block elements (U+2581 to U+2588).
  explicit UsageGraph(bool utf8) : utf8_(utf8) {}

  // A GPU that is not in this status is forgotten.
  void add(const nlohmann::json &status);
  // At most `columns` bars, with a space where no value was reported; nothing if none was in all of
  // them.
  std::string line(const std::string &uuid, Of what, size_t columns) const;

 private:
  using Bars = std::deque<std::optional<double>>;  // from 0 to 1
  struct Gpu {
    Bars memory, kernels;
  };
  std::string bar(std::optional<double> share) const;

  bool utf8_;
  std::map<std::string, Gpu> gpus_;  // by UUID
};

// Whether the environment's locale has UTF-8 (locale(7)).
bool has_utf8_locale();

}  // namespace ckpt::tools
