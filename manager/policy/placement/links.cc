// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/placement/links.h"

#include <algorithm>
#include <vector>

namespace ckpt::manager {
namespace {

schedule::StageShares shares_of(double copying) {
  schedule::StageShares shares;
  copying = std::clamp(copying, 0.0, 1.0);
  shares.of = {0, copying / 2, copying / 2, 1 - copying};
  return shares;
}

}  // namespace

double slowdown_by_links(std::span<const double> there, std::span<const double> elsewhere,
                         const schedule::Bandwidths &node) {
  double most = 1;
  for (size_t i = 0; i < there.size(); i++) {
    std::vector<schedule::StageShares> neighbours;
    for (size_t k = 0; k < there.size(); k++)
      if (k != i) neighbours.push_back(shares_of(there[k]));
    for (double copying : elsewhere) neighbours.push_back(shares_of(copying));
    most = std::max(most, schedule::slowdown(shares_of(there[i]), neighbours, node));
  }
  return most;
}

}  // namespace ckpt::manager
