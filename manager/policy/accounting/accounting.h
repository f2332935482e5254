// SPDX-License-Identifier: Apache-2.0
//
// The accounting of one moment, made anew from the state for each decision, so that no counter can
// drift from the truth. Per GPU: what was measured free, and what of it is spoken for (MC-9…MC-12).
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "manager/policy/state.h"

namespace ckpt::manager {

using Programs = std::vector<std::unique_ptr<Program>>;

struct GpuAccount {
  u64 free = 0;
  u64 reserved = 0;                    // granted or assigned, and not yet seen in `free`
  u64 leaving = 0;                     // what those that leave will give back
  u32 programs = 0;                    // on it
  u32 contextless = 0;                 // of these
  u32 leavers = 0;                     // of these, that may be expected to be gone soon
  const Program *exclusive = nullptr;  // has it, or is it cleared for
  std::vector<ProfileIndex> profiles;  // of its programs, each once
  Load load;                           // of them all
  u64 expected = 0;                    // bytes that new ones will soon ask for
  const Program *starving = nullptr;   // has waited too long: what comes free here is for it
  u64 starving_need = 0;

  u64 available() const { return free > reserved ? free - reserved : 0; }
  // … to somebody who is not the starving.
  u64 available_to(const Program &p) const {
    u64 kept_back = starving != nullptr && starving != &p ? starving_need : 0;
    return available() > kept_back ? available() - kept_back : 0;
  }
};

struct Accounting {
  std::vector<GpuAccount> gpus;
  // Programs that hold an assignment, evicted ones too (MC-18). Not those that were exclusive
  // from the start: those that they evict keep theirs, and would keep them out.
  u32 assigned = 0;
  std::array<u32, managed::kAllApis + 1> assigned_by{};  // the same, by the APIs that they need
  const Program *starving = nullptr;                     // an assignment is kept for it, too
  u64 host_kept = 0;                                     // bytes of evicted programs in host memory
  u64 disk_kept = 0;
};

inline bool serves(const Gpu &gpu, u32 apis) { return (apis & ~gpu.apis) == 0; }
// Sums of what programs say stay far from overflowing.
inline u64 sane(u64 bytes) { return bytes < (1ull << 44) ? bytes : 1ull << 44; }

u64 context_cost(const Gpu &gpu, const Settings &settings);
// What a program needs on `gpu` at the least: a cost that was only assumed is no reason to deny.
u64 least_need_of(const Program &p, const Gpu &gpu);
// … with a cost that is assumed.
u64 asked_of(const Program &p, const Gpu &gpu, const Settings &settings);
// … and what others of its profile have had, to begin or go on there.
u64 need_of(const Program &p, const Gpu &gpu, const Settings &settings);
// What it will soon ask for beside what it has been promised, if it does as others of its profile.
u64 expected_of(const Program &p);
// Of the memory that was measured free there, what `p` has been promised.
u64 reserved_by(const Program &p, const Gpu &gpu, const Settings &settings);
// What comes free when it leaves.
u64 footprint_of(const Program &p, const Gpu &gpu, const Settings &settings);

// What it has there now, by its own word.
u64 held_by(const Program &p, const Gpu &gpu, const Settings &settings);

Accounting make_accounting(const std::vector<Gpu> &gpus, const Programs &programs,
                           const Settings &settings);
// `p` has come to its GPU, in the middle of a round of decisions.
void enter(Accounting &accounting, const Program &p, const Gpu &gpu, const Settings &settings);

}  // namespace ckpt::manager
