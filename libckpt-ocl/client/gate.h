// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/gate.h"

namespace ckpt::ocl {

Gate &gate();

// One API call. After a fork the child's calls must touch nothing: see alive().
class Entry {
 public:
  Entry() { gate().enter(); }
  ~Entry() { gate().leave(); }
  Entry(const Entry &) = delete;
};

}  // namespace ckpt::ocl
