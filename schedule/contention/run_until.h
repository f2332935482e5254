// SPDX-License-Identifier: Apache-2.0
//
// Time on a node that several run on, each at the inverse of its slowdown beside the others.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace ckpt::schedule {

// Moves `now` to the next end of one of `running`, which has `left` (seconds without neighbours)
// and `slowdown`. Those that end are removed, after a call of `ended`.
template <class Running, class Ended>
void run_until_one_ends(std::vector<Running> &running, double &now, Ended &&ended) {
  double step = std::numeric_limits<double>::infinity();
  for (const Running &r : running) step = std::min(step, r.left * r.slowdown);
  now += step;
  // The one that determined the step has no work left, whatever the division rounds to.
  std::erase_if(running, [&](Running &r) {
    bool ends = r.left * r.slowdown <= step;
    r.left -= step / r.slowdown;
    if (ends) ended(r);
    return ends;
  });
}

}  // namespace ckpt::schedule
