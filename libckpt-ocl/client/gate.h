// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/participant/gate.h"

namespace ckpt::ocl {

agent::Gate &gate();

// Of tenancy.cc, at the end of a call: so much of what was released is to be told that it is worth
// a message to the node's Manager.
bool releases_to_tell();
void tell_releases();

// One API call. After a fork the child's calls must touch nothing: see alive().
class Entry {
 public:
  Entry() { gate().enter(); }
  ~Entry() {
    if (gate().outermost() && releases_to_tell()) tell_releases();
    gate().leave();
  }
  Entry(const Entry &) = delete;
};

}  // namespace ckpt::ocl
