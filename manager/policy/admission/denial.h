// SPDX-License-Identifier: Apache-2.0
//
// Requests that are denied because waiting could not help: beyond a limit, larger than any GPU, or
// part of a deadlock.
#pragma once

#include "manager/policy/eviction/eviction.h"
#include "manager/policy/placement/placement.h"

namespace ckpt::manager {

class Denial {
 public:
  Denial(State &state, const Placement &placement, const Credits &credits)
      : state_(state), placement_(placement), credits_(credits) {}

  // Why the program can never have what it asks for; no value: it can.
  std::optional<std::string> over_limit(const Program &p) const;
  // Removes the request with that ticket.
  void deny(Program &p, u32 ticket, const std::string &why);

  // Waiting programs that do not fit on an empty GPU, because the driver itself uses the rest.
  void deny_hopeless();
  // GPUs on which each program waits for memory of another, and none can be evicted: the last
  // program that came loses its request.
  void break_deadlocks();

 private:
  bool hopeless(const Program &p) const;
  static bool refuse_last(Program &p);
  bool deadlocked(GpuIndex g) const;

  State &state_;
  const Placement &placement_;
  const Credits &credits_;
};

}  // namespace ckpt::manager
