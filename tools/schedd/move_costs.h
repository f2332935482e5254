// SPDX-License-Identifier: Apache-2.0
//
// What the move of a job costs on the nodes of a class: fitted to a history's events on these
// nodes, or to all events if these are few, or else assumed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "schedule/cost/cost_model.h"

namespace ckpt::tools {

struct MoveCosts {
  // What few moves exceed, of data that cannot be compressed (schedule::CostBound).
  schedule::CostModel model;
  // Defaults for jobs whose tags have no wait=, compile= and mb=, which few checkpoints and
  // restores exceed: the seconds that a checkpoint waits for kernels, the seconds that a restore
  // needs to compile them, and the data of a program.
  double wait = 0, compile = 0, megabytes = 1000;
  bool few = false;                      // so few measurements that the costs may be too low
  size_t checkpoints = 0, restores = 0;  // that it is fitted to; none: it is assumed
};

// `storage`: only images on this file system count; empty: all.
MoveCosts move_costs(const std::vector<nlohmann::json> &history, const std::string &storage,
                     const std::set<std::string> &nodes);

}  // namespace ckpt::tools
