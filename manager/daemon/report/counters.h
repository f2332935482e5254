// SPDX-License-Identifier: Apache-2.0
//
// Counts what has happened since the start of the daemon, from the messages that it receives and
// the orders that it carries out. The policy does not depend on it.
#pragma once

#include <array>
#include <map>

#include "manager/policy/policy.h"

namespace ckpt::manager {

class Counters {
 public:
  using Seconds = std::chrono::duration<double>;

  // The state of a program before its message was processed.
  struct Before {
    bool known = true;  // false: it has not joined, or has ended
    Phase phase = Phase::Unassigned;
    GpuIndex gpu = kNoGpu;
    u64 kept = 0;
  };
  static Before before(const Program *p);

  void heard(Time now, ProgramId from, const managed::ToManager &message, const Before &before);
  void ordered(Time now, const Orders &orders);
  void decided(Seconds took);
  void gone(ProgramId id);
  size_t open_requests() const { return open_.size(); }  // that were not answered yet

  u64 evictions = 0;   // programs that have left their GPU because the Manager told them to
  u64 resumes = 0;     // … and have resumed
  u64 migrations = 0;  // … on another GPU than the one that they had left
  u64 bytes_out = 0, bytes_in = 0;
  Time away{0};     // the time for which resumed programs were evicted
  u64 waits = 0;    // requests for memory or a GPU that were granted after a wait
  Time waited{0};   // … and the sum of the waits
  u64 denials = 0;  // requests that were denied with an out-of-memory error

  // Upper bounds of the histogram of decisions; the last bucket has none.
  static constexpr std::array<double, 9> kBucketSeconds = {1e-5, 2e-5, 5e-5, 1e-4, 2e-4,
                                                           5e-4, 1e-3, 1e-2, 1e-1};
  std::array<u64, kBucketSeconds.size() + 1> decisions{};
  Seconds deciding{0};

  std::map<std::string, u64> from_programs, to_programs;  // messages by name

 private:
  struct Away {
    Time since{0};
    GpuIndex gpu = kNoGpu;
  };
  void answered(Time now, ProgramId id, u32 ticket);
  void forget_requests(ProgramId id);
  void evicted(Time now, ProgramId id, u64 kept, const Before &before);
  void resumed(Time now, ProgramId id, const Before &before);

  std::map<std::pair<ProgramId, u32>, Time> open_;  // ticket 0: the request for a GPU
  std::map<ProgramId, Away> away_;
};

}  // namespace ckpt::manager
