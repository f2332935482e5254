// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace ckpt {

// "a,,b," has the parts "a", "" and "b"; "" has none.
inline std::vector<std::string> split_at_commas(const std::string &list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(std::move(part));
  return parts;
}

}  // namespace ckpt
