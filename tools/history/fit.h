// SPDX-License-Identifier: Apache-2.0
//
// The cost of checkpoints and restores, fitted to a history's lines (schedule/cost).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "schedule/cost/cost_model.h"

namespace ckpt::tools {

struct HistoryFit {
  schedule::CostModel model;
  size_t dumps = 0, restores = 0;
  // (predicted - measured) / measured of each (KS-4).
  std::vector<double> dump_errors, restore_errors;
};

struct FitOptions {
  std::string devices;  // only programs that used exactly these APIs ("ocl", "none"); empty: all
  std::string storage;  // only images on this file system ("ext4"); empty: all
};

// Lines without sizes and times, and those of failures, count for nothing.
HistoryFit fit_history(const std::vector<nlohmann::json> &events, const FitOptions &options);

}  // namespace ckpt::tools
