// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/move_costs.h"

#include "tools/history/fit.h"

namespace ckpt::tools {
namespace {

using schedule::Line;

// Fewer measurements than that say little.
constexpr size_t kEnoughEvents = 3;
// What KS-5.5 assumes: 25 s for each GB that is moved.
constexpr Line kAssumed{12.5 / 1024, 1};

}  // namespace

MoveCosts move_costs(const std::vector<nlohmann::json> &history, const std::string &storage,
                     const std::set<std::string> &nodes) {
  for (const std::set<std::string> &hosts : {nodes, std::set<std::string>()}) {
    HistoryFit fit = fit_history(history, {.devices = "", .storage = storage, .hosts = hosts});
    if (fit.dumps >= kEnoughEvents && fit.restores >= kEnoughEvents)
      return {.model = fit.worst_case(),
              .wait = fit.wait,
              .compile = fit.compile,
              .megabytes = fit.megabytes,
              .few = !fit.dump.bound.has_enough() || !fit.restore.bound.has_enough(),
              .checkpoints = fit.dumps,
              .restores = fit.restores};
  }
  return {.model = {kAssumed, kAssumed}};
}

}  // namespace ckpt::tools
