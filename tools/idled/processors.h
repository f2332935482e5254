// SPDX-License-Identifier: Apache-2.0
//
// The share of the processors that the owner's programs use: the use of all programs, less that of
// the guests.
#pragma once

#include <string>

#include "tools/idled/guests.h"

namespace ckpt::tools {

class Processors {
 public:
  explicit Processors(std::string root = "") : root_(std::move(root)) {}

  struct Use {
    double owner = 0, guests = 0;  // of all processors: 0 to 1
  };
  // Since the call before; 0 at the first.
  Result<Use> read(Guests &guests);

 private:
  std::string root_;
  double busy_before_ = 0, all_before_ = 0;
  bool first_ = true;
};

}  // namespace ckpt::tools
