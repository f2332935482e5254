// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/class_costs.h"

#include "common/base/log.h"

namespace ckpt::tools {

void ClassCosts::fit(const std::vector<schedule::ResourceClass> &classes,
                     const std::vector<std::set<std::string>> &names) {
  constexpr double kExample = 1000;  // MB
  if (!costs_.empty()) return;
  for (size_t c = 0; c < names.size(); c++) {
    costs_.push_back(move_costs(history_, storage_, names[c]));
    const MoveCosts &costs = costs_.back();
    log::info(
        "class {}: to move {:.0f} MB takes at most {:.1f} s and {:.1f} s, by {} checkpoints and {} "
        "restores of the history{}",
        classes[c].name, kExample, costs.model.checkpoint_seconds(kExample),
        costs.model.restore_seconds(kExample), costs.checkpoints, costs.restores,
        costs.few ? "; these are few, and the costs may be too low" : "");
  }
  usual_ = move_costs(history_, storage_, {});
  history_ = {};
}

}  // namespace ckpt::tools
