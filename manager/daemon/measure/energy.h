// SPDX-License-Identifier: Apache-2.0
//
// Which part of the GPUs' energy each program had. A GPU has one counter, for all. So the energy of
// each interval is divided among the processes that ran kernels in it, by the time of their
// kernels. An interval in which none ran belongs to none. What the host consumes is in none of
// these numbers. The policy is told the time of each program's kernels.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <vector>

#include "manager/daemon/io/peer.h"
#include "manager/daemon/measure/meter.h"
#include "manager/policy/policy.h"

namespace ckpt::manager {

class EnergyShares {
 public:
  static constexpr Time kInterval = std::chrono::seconds(1);

  // Reads the counters if an interval has passed. Only peers with a program of `policy` count.
  void read(Time now, Meter &meter, const std::list<Peer> &peers, Policy &policy);
  // Milliseconds until the next reading; negative: nothing has to be read, as no program is there
  // or no GPU has a counter.
  int timeout(Time now, bool programs) const;
  void gone(ProgramId program) { joules_.erase(program); }

  // Since it has joined; no value: no GPU has a counter.
  std::optional<double> of(ProgramId program) const;
  // Of all programs that this GPU has had; no value: it has no counter.
  std::optional<double> of_programs(size_t gpu) const;

 private:
  struct Counter {
    std::optional<double> joules;  // as read last; no value: there is none
    double of_programs = 0;
  };
  // In which part of an interval kernels ran.
  struct Shares {
    std::map<ProgramId, double> of;
    double all = 0;  // of all processes
  };
  static Shares shares_of(const std::map<i32, double> &of_processes, const std::list<Peer> &peers,
                          const Policy &policy);
  void divide(Counter &counter, double joules, const Shares &shares);
  bool any_counter() const;

  std::optional<Time> read_at_;
  std::vector<Counter> counters_;  // of each GPU
  std::map<ProgramId, double> joules_;
};

}  // namespace ckpt::manager
