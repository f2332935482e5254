// SPDX-License-Identifier: Apache-2.0
//
// How long the parts of a round take.
#pragma once

#include <array>
#include <string>

#include "common/base/bytes.h"

namespace ckpt::tools {

class Laps {
 public:
  enum Part : size_t { kRead, kParse, kPlan, kWrite, kParts };

  Laps() : last_(now()) {}
  // What has passed since the last call belongs to this part.
  void add(Part part);
  // "read 0.512 (0.041), parse …": seconds and, in parentheses, of this process's processor time.
  std::string text() const;

 private:
  struct Times {
    double passed = 0, processor = 0;
  };
  static Times now();

  Times last_;
  std::array<Times, kParts> parts_{};
};

}  // namespace ckpt::tools
