// SPDX-License-Identifier: Apache-2.0
//
// What a context costs on each GPU, and when the contexts and device variables of programs appear
// in what the driver reports. Until then they stay reserved (MC-11, MC-14). A driver creates a
// context and its variables some time after the call that causes it, so a program asks again and
// again (ContextCheck) until both were measured.
#pragma once

#include <optional>
#include <unordered_map>

#include "manager/policy/state.h"

namespace ckpt::manager {

class Contexts {
 public:
  explicit Contexts(State &state) : state_(state) {}

  // What the driver reports for the program on its GPU, context included, for the present decision.
  // Where it reports nothing, a context is taken to exist as soon as the program says so.
  void measured(ProgramId program, u64 bytes) { footprints_[program] = bytes; }
  void forget_measurements() { footprints_.clear(); }
  // The cost that a program learned from an earlier Manager. A measurement replaces it.
  void learn(u64 bytes);

  // A program asks whether its context and its variables were measured.
  void check(Program &p);
  // A program that has resumed, or joined with a context, has to ask as if it had just started: it
  // may have left before its variables existed.
  void check_again(Program &p);
  // Code was loaded or unloaded. Where nothing is measured, its variables are taken to exist.
  void variables_loaded(Program &p);
  // Its memory has changed, so its variables may have been measured.
  void update_variables(Program &p);

  // What stays of a program that leaves its GPU at depth "memory".
  u64 stay_of(const Program &p) const;

 private:
  std::optional<u64> footprint(const Program &p) const;
  void note_context(Program &p, std::optional<u64> footprint);
  void note_variables(Program &p, std::optional<u64> footprint);
  void confirm(const Program &p);

  State &state_;
  std::unordered_map<ProgramId, u64> footprints_;
};

}  // namespace ckpt::manager
