// SPDX-License-Identifier: Apache-2.0
#include "schedule/contention/paper_tasks.h"

#include <algorithm>

namespace ckpt::schedule {

std::span<const ContentionTask> paper_tasks() {
  static const ContentionTask tasks[] = {
      {"BT", false, 4.87, 0.3049, 0, 0},
      {"CG", false, 0.95, 2.8039, 0, 0},
      {"EP", false, 4.14, 0.0014, 0, 0},
      {"FT", false, 0.51, 0.6793, 0, 0},
      {"LU", false, 13.70, 8.6737, 0, 0},
      {"MG", false, 0.66, 1.9154, 0, 0},
      {"SP", false, 14.13, 27.4682, 0, 0},
      {"UA", false, 10.43, 15.3178, 0, 0},
      {"alignedTypes", true, 32.61, 10.8858, 0.1666, 1.9999},
      {"gaussian", true, 16.10, 0.6292, 0.0737, 0.07372},
      {"Hotspot", true, 8.89, 0.0239, 0.0018, 0.000929},
      {"Kmeans", true, 8.44, 3.6788, 0.1403, 0.0731},
      {"cbmat", true, 12.75, 68.7290, 11.1977, 10.4532},
      {"SRAD", true, 15.70, 27.4051, 4.5, 4.5},
      {"transposeNew", true, 30.59, 10.6715, 0.0943, 1.5099},
  };
  return tasks;
}

const ContentionTask &paper_task(std::string_view name) {
  std::span all = paper_tasks();
  return *std::find_if(all.begin(), all.end(),
                       [&](const ContentionTask &t) { return t.name == name; });
}

}  // namespace ckpt::schedule
