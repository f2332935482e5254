// SPDX-License-Identifier: Apache-2.0
//
// Which images of one program are kept, by the rules of restic-forget(1): for each rule, the newest
// image of each of the last N hours, days, weeks or months that have one. A rule with counts left
// keeps the oldest image, too, so that the history is as long as it can be.
#pragma once

#include <time.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ckpt::tools {

struct Retention {
  unsigned last = 0, hourly = 0, daily = 0, weekly = 0, monthly = 0;  // 0: no such rule
  // Everything that is at most this much older than the newest image.
  std::optional<std::chrono::duration<double>> within;

  bool has_rules() const { return last + hourly + daily + weekly + monthly > 0 || within; }
};

// `times`: of the images of one program, the newest first. For each, the rules that keep it; an
// image without any goes. Hours, days, weeks (from Monday) and months are those of the local time.
std::vector<std::vector<std::string>> rules_that_keep(const std::vector<time_t> &times,
                                                      const Retention &rules);

}  // namespace ckpt::tools
