// SPDX-License-Identifier: Apache-2.0
//
// The properties of a routine and of all routines that it calls.
#pragma once

#include <vector>

#include "slicing/outline.h"

namespace ckpt::slicing {

struct Reach {
  bool reads_in_function = false;  // a function reads the grid, so that it needs the shared copy
  bool may_wait = false;
  const char *whole = nullptr;
};

// One for each routine of the outline, in its order.
std::vector<Reach> reach_of(const Outline &outline);

}  // namespace ckpt::slicing
