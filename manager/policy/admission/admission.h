// SPDX-License-Identifier: Apache-2.0
//
// Which program gets the memory that is free: running programs that wait for more, and programs
// that wait for a GPU. policy.h explains the algorithm.
#pragma once

#include "manager/policy/eviction/exchange.h"
#include "manager/policy/eviction/exclusivity.h"

namespace ckpt::manager {

class Admission {
 public:
  Admission(State &state, Placement &placement, Eviction &eviction, Exclusivity &exclusivity,
            Credits &credits, Cohort &cohort, Exchange &exchange)
      : state_(state),
        placement_(placement),
        eviction_(eviction),
        exclusivity_(exclusivity),
        credits_(credits),
        cohort_(cohort),
        exchange_(exchange) {}

  void serve_running();
  // `waiting`: in the order in which they are served (starvation.h).
  void serve_waiting(const std::vector<Program *> &waiting);

  // A program got its GPU, so its threads hear whether their requests are granted.
  void answer_requests(Program &p);
  // It goes to a device that is not managed.
  void release(Program &p);

 private:
  bool grant(Program &p, Request &r);
  u64 available_to(const Program &p) const;
  void place_together(const Cohort::Members &members, bool first);
  void serve_one(Program &p, std::span<Program *const> behind);
  void send_guests_away(const Program &p);
  void place(Program &p, GpuIndex g);
  void assign(Program &p, const Pending &before, GpuIndex g);
  void resume(Program &p, GpuIndex g);
  void drop_reservation(const Program &p);

  State &state_;
  Placement &placement_;
  Eviction &eviction_;
  Exclusivity &exclusivity_;
  Credits &credits_;
  Cohort &cohort_;
  Exchange &exchange_;
};

}  // namespace ckpt::manager
