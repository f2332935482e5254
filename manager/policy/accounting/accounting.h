// SPDX-License-Identifier: Apache-2.0
//
// The accounting at one moment: for each GPU, the measured free memory, and the part of it that is
// promised (MC-9 to MC-12). It is computed from the programs again for each decision, so no counter
// can drift. Sizes are in bytes.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "manager/policy/program.h"
#include "manager/policy/settings.h"

namespace ckpt::manager {

struct GpuAccount {
  GpuIndex index = kNoGpu;
  u64 free = 0;
  u64 reserved = 0;                    // granted or assigned, and not yet missing in `free`
  u64 freeing = 0;                     // becomes free when the evicted programs have left
  u32 programs = 0;                    // on this GPU
  u32 contextless = 0;                 // of these
  u32 leaving = 0;                     // of these, evicted programs that should be gone soon
  const Program *exclusive = nullptr;  // has this GPU for itself, or it is cleared for it
  std::vector<ProfileIndex> profiles;  // of its programs, each once
  Load load;                           // of all of them
  u32 stayers = 0;                     // evicted programs with a stay here
  u32 deepening = 0;                   // of these, those that are giving it back
  u64 staying = 0;                     // what the others could give back
  u64 expected = 0;                    // what newly assigned programs will soon ask for
  const Program *starving = nullptr;   // what becomes free is kept for this program
  u64 starving_need = 0;

  u64 available() const { return free > reserved ? free - reserved : 0; }
  // The same for a program that may not take what is kept for the starving program.
  u64 available_to(const Program &p) const {
    u64 kept = starving != nullptr && starving != &p ? starving_need : 0;
    return available() > kept ? available() - kept : 0;
  }
  // What the evicted programs other than `p` could give back.
  u64 staying_beside(const Program &p) const;
  u32 stayers_beside(const Program &p) const;
  bool taken(const Program &p) const { return exclusive != nullptr && exclusive != &p; }
  bool kept_from(const Program &p) const { return starving != nullptr && starving != &p; }
};

struct Accounting {
  std::vector<GpuAccount> gpus;
  // Programs that hold an assignment, evicted ones included (MC-18). Programs that were exclusive
  // from the start do not count: those that they evict keep their assignments and would block them.
  u32 assigned = 0;
  std::array<u32, managed::kAllApis + 1> assigned_by{};  // the same, by the APIs that they need
  const Program *starving = nullptr;                     // an assignment is kept for it, too
  u64 host_kept = 0;                                     // contents in host memory
  u64 disk_kept = 0;

  Accounting() = default;
  Accounting(const std::vector<Gpu> &all, const Programs &programs, const Settings &settings);
  // `p` was placed on `gpu`, its GPU, after the counting.
  void add(const Program &p, const Gpu &gpu, const Settings &settings);
  void add_assignment(const Program &p);
  void keep(const Contents &contents);

 private:
  void add_stay(const Program &p, const std::vector<Gpu> &all);
};

inline u64 context_cost(const Gpu &gpu, const Settings &settings) {
  bool measured = gpu.context_known || gpu.context_bytes > 0;
  return measured ? gpu.context_bytes : settings.context_bytes;
}
// The minimum that a program needs on `gpu`. An assumed cost of a context is left out, because an
// assumption must not cause a denial.
inline u64 least_need_of(const Program &p, const Gpu &gpu) {
  return (gpu.context_known ? gpu.context_bytes : 0) + p.variables + p.used + p.requested();
}
// What it has asked for, with an assumed cost of a context.
inline u64 asked_of(const Program &p, const Gpu &gpu, const Settings &settings) {
  return context_cost(gpu, settings) + p.variables + p.used + p.requested();
}
// The same, or what its workload has used in earlier runs if that is more.
inline u64 need_of(const Program &p, const Gpu &gpu, const Settings &settings) {
  return std::max(asked_of(p, gpu, settings), context_cost(gpu, settings) + p.workload.expected);
}
// The same three where its context and variables may be there already: what more it takes there.
u64 least_room_of(const Program &p, const Gpu &gpu);
u64 asked_room_of(const Program &p, const Gpu &gpu, const Settings &settings);
u64 room_of(const Program &p, const Gpu &gpu, const Settings &settings);
// What it will soon ask for beyond what it was promised, if it behaves like earlier runs.
u64 expected_of(const Program &p);
// The part of the measured free memory that `p` was promised.
u64 reserved_by(const Program &p, const Gpu &gpu, const Settings &settings);
// What it holds there now, as it reports.
u64 held_by(const Program &p, const Gpu &gpu, const Settings &settings);
// What becomes free when it leaves.
u64 footprint_of(const Program &p, const Gpu &gpu, const Settings &settings);
// The part of that which stays if it leaves at depth "memory", as far as it is known.
u64 stay_of(const Program &p, const Gpu &gpu, const Settings &settings);
// What becomes free when the program, which is leaving, has left.
u64 freed_by(const Program &p, const Gpu &gpu, const Settings &settings);

}  // namespace ckpt::manager
