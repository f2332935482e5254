// SPDX-License-Identifier: Apache-2.0
//
// The cost of checkpoints and restores, fitted to a history's lines (schedule/cost).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "schedule/cost/cost_bound.h"
#include "schedule/cost/cost_model.h"

namespace ckpt::tools {

// A dump or a restore, and what the model says of it.
struct PredictedCost {
  std::string program;
  double megabytes = 0, stored_megabytes = 0, load = 1;
  double compiled = 0;  // of a restore: the seconds in which kernels were compiled
  double predicted = 0, measured = 0;
};
struct SizedFit {
  schedule::CostBound bound;
  std::vector<PredictedCost> all;
  std::vector<double> errors() const;
};

struct HistoryFit {
  schedule::CostModel model;
  // Fits to the stored bytes and the load, too. The wait of a dump, and K, are used as measured.
  SizedFit dump, restore;
  size_t dumps = 0, restores = 0;
  // (predicted - measured) / measured of each (KS-4).
  std::vector<double> dump_errors, restore_errors;
  // What few events exceed (schedule::seldom_exceeded): the wait of a dump, K of a restore, and
  // the data of a program.
  double wait = 0, compile = 0, megabytes = 0;

  // See schedule::CostBound. Without waits and K.
  schedule::CostModel worst_case() const;
};

struct FitOptions {
  std::string devices;  // only programs that used exactly these APIs ("ocl", "none"); empty: all
  std::string storage;  // only images on this file system ("ext4"); empty: all
  std::set<std::string> hosts = {};  // only events of these nodes; empty: all
};

// "ocl", "cuda", "cuda,ocl"; "none".
std::string devices_of(const nlohmann::json &event);
// "ext4"; "unknown".
std::string storage_of(const nlohmann::json &event);

// Lines without sizes and times, and those of failures, are ignored.
HistoryFit fit_history(const std::vector<nlohmann::json> &events, const FitOptions &options);

}  // namespace ckpt::tools
