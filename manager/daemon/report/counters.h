// SPDX-License-Identifier: Apache-2.0
//
// What has happened since the daemon was started, in numbers that only grow. Made of the messages
// that come and the orders that go; the policy knows nothing of it.
#pragma once

#include <array>
#include <map>

#include "manager/policy/policy.h"

namespace ckpt::manager {

class Counters {
 public:
  using Seconds = std::chrono::duration<double>;

  // How a program was before its message was handled.
  struct Before {
    bool known = true;  // false: it has not joined, or is over
    Phase phase = Phase::Unassigned;
    GpuIndex gpu = kNoGpu;
    u64 kept = 0;
  };
  static Before before(const Program *p);

  void heard(Time now, ProgramId from, const managed::ToManager &message, const Before &before);
  void ordered(Time now, const Orders &orders);
  void decided(Seconds took);
  void gone(ProgramId id);
  size_t open_questions() const { return open_.size(); }  // that were not answered yet

  u64 evictions = 0;   // programs that have left their GPU by the Manager's word
  u64 returns = 0;     // … and have come back
  u64 migrations = 0;  // … to another GPU than the one that they had left
  u64 bytes_out = 0, bytes_in = 0;
  Time away{0};     // of those that are back
  u64 waits = 0;    // requests and questions for a GPU that were not answered at once, but then
  Time waited{0};   // … after so long
  u64 denials = 0;  // requests that were answered with out of memory

  // Of decisions; the last one has no bound.
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
  void forget_questions(ProgramId id);
  void left(Time now, ProgramId id, u64 kept, const Before &before);
  void came(Time now, ProgramId id, const Before &before);

  std::map<std::pair<ProgramId, u32>, Time> open_;  // ticket 0: a question for a GPU
  std::map<ProgramId, Away> away_;
};

}  // namespace ckpt::manager
