// SPDX-License-Identifier: Apache-2.0
//
// What moves cost on the nodes of each class, fitted once to a history.
#pragma once

#include "schedule/plan/job.h"
#include "tools/schedd/move_costs.h"

namespace ckpt::tools {

class ClassCosts {
 public:
  // `storage`: see move_costs().
  ClassCosts(std::vector<nlohmann::json> history, std::string storage)
      : history_(std::move(history)), storage_(std::move(storage)) {}

  // As soon as Slurm has said which nodes there are. Later calls change nothing. `names`: of the
  // nodes, by class.
  void fit(const std::vector<schedule::ResourceClass> &classes,
           const std::vector<std::set<std::string>> &names);

  const schedule::CostModel &of(schedule::ClassIndex c) const { return costs_[c].model; }
  const MoveCosts &usual() const { return usual_; }  // on all nodes

 private:
  std::vector<nlohmann::json> history_;  // until the costs are fitted to it
  const std::string storage_;
  std::vector<MoveCosts> costs_;
  MoveCosts usual_;
};

}  // namespace ckpt::tools
