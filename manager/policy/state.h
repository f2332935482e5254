// SPDX-License-Identifier: Apache-2.0
//
// What the Manager knows: the node, its GPUs, and the programs on them. Plain values; who changes
// them is policy.h.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/managed/messages.h"
#include "manager/policy/placement/interference.h"

namespace ckpt::manager {

using ProgramId = u32;  // the caller's, from 1, never used again
using GpuIndex = int;
inline constexpr GpuIndex kNoGpu = -1;
inline constexpr u64 kMiB = 1u << 20;

// Who leaves when memory runs short.
enum class Victim : u8 {
  Requester,  // who asks for more, as in the paper (MC-12)
  Cheapest,   // lower priority first, then who is not nearly over, fewer bytes, who came last
};

// Whom to put together on a GPU.
enum class PlacementMode : u8 {
  FirstFit,      // who fits
  Interference,  // not those that are known to lose by it (interference.h)
  Demand,        // of those who wait, whom the GPU's programs leave most (load.h)
};

struct Settings {
  u32 programs_per_gpu = 4;       // MC-18; as many as that times the GPUs hold an assignment
  u32 contextless_per_gpu = 4;    // MC-19
  u64 context_bytes = 64 * kMiB;  // of a context, until one was measured (MC-11)
  u64 credit_bytes = 0;           // that a program may take without a question, while nobody waits
  u64 program_bytes = 0;          // that one program may hold; 0: no limit
  u64 host_bytes = ~u64{0};       // for the contents of evicted programs
  std::string disk_folder;        // where they go when that is used up; empty: nowhere
  u64 disk_bytes = 0;
  Victim victim = Victim::Requester;
  Time starvation_limit =
      std::chrono::seconds(30);  // who waits longer may become the starving (waiting.cc)
  Time min_residency{std::chrono::seconds(1)};  // nobody is evicted for another sooner than that
  Time eviction_timeout = std::chrono::seconds(60);   // of a program that is to leave
  Time retry_delay = std::chrono::milliseconds(500);  // after what failed
  u32 max_refusals = 3;  // a program that could not be suspended so often is not asked again
  Time startup_delay{
      0};  // nothing is given before the programs of an earlier Manager had time to join
  PlacementMode placement = PlacementMode::FirstFit;
  Time progress_interval = std::chrono::seconds(1);  // how often programs tell of their progress
  Time pairing_limit =
      std::chrono::seconds(300);  // so long an starving is choosy, or we are for it
  Time rebalance_after =
      std::chrono::seconds(10);  // who shares a GPU so long may move to an empty one
  Time time_slice{0};  // programs that do not fit together take turns of it; 0: they do not
};

struct Gpu {
  std::string uuid;
  u64 total = 0;          // bytes
  u64 free = 0;           // measured last; where nobody measures: what others than programs leave
  bool dying = false;     // a program of ours that is over still has memory there
  bool foreign = false;   // somebody else than our programs has memory there
  u64 context_bytes = 0;  // what a context costs, measured here or else on another GPU; 0: nowhere
  bool context_known = false;  // measured here
  u64 company = 1;             // another number whenever somebody comes, leaves, or makes a context
  u32 apis = managed::kCuda;   // that it serves
  // False: nobody can tell what is free there but the programs, by what they say that they hold. A
  // context then costs nothing that anybody knew of.
  bool measured = true;
};

enum class Phase : u8 {
  Unassigned,  // has not asked for a device
  Pending,     // has asked, and waits: no context, nothing to back up
  Assigned,    // has a GPU
  Evicting,    // is to leave it
  Evicted,     // holds nothing of a device: the waiting set
  Resuming,    // is to come back, to `gpu`
};
const char *name_of(Phase phase);

// Memory that a program has asked for and not confirmed.
struct Request {
  u32 ticket = 0;
  u64 bytes = 0;
  bool granted = false;
  bool refused = false;  // it is told so when it is back
  bool alone = false;    // for code whose kernels use the heap: it needs a GPU for itself then
};

// A time in which a program ran in one company: from a call of its own on.
struct Stretch {
  u64 company = 0;  // the GPU's; 0: none
  Time since{0};    // it was there since then at the latest
  bool begun = false;
  u64 calls = 0;   // that it had made …
  u64 copied = 0;  // … and bytes that these copied …
  Time at{0};      // … when it made the last of these
};

struct Program {
  ProgramId id = 0;
  u32 pid = 0;
  std::string name;
  i32 priority = 0;           // more is more important
  u32 apis = managed::kCuda;  // that its GPU must serve

  Phase phase = Phase::Unassigned;
  GpuIndex gpu = kNoGpu;
  bool exclusive = false;          // needs a GPU for itself (MC-15) …
  bool late = false;               // … since code was loaded in the middle of its life
  bool context = false;            // its context was seen
  bool variables_seen = false;     // so were its device variables, since it last got some
  bool told = false;               // Leaving: Suspend was sent, not only Signal
  bool stuck = false;              // Leaving, and has not answered in time
  bool moves = false;              // Leaving, for a GPU that nobody uses
  bool parked = false;             // Evicted by somebody else: not ours to resume
  std::string cannot_leave;        // why it could not be suspended the last time; empty: it could
  u32 refusals = 0;                // how often in a row
  std::map<GpuIndex, u32> failed;  // returns there, since the last one that worked
  std::map<GpuIndex, std::string> unsuited;  // where it can never run, and why

  u64 used = 0;       // bytes that it holds on its GPU, or will when it is back
  u64 variables = 0;  // of device variables
  u64 kept = 0;       // bytes of its contents with the host
  bool on_disk = false;
  std::vector<Request> requests;
  u64 credit = 0;  // bytes beside `used` that it may take, or has taken, without a question
  bool credit_revoked = false;     // they are wanted back …
  Time credit_revoked_at{0};       // … since then
  GpuIndex target = kNoGpu;        // wants to be alone: the GPU that is cleared for it
  GpuIndex reserved_gpu = kNoGpu;  // it has waited too long: where it is to go
  GpuIndex previous_gpu = kNoGpu;  // Held once more: where it was

  Time arrived{0};
  Time since{0};       // in this phase
  Time not_before{0};  // a return, or an attempt to make it leave, has just failed
  u32 checks = 0;      // of its context, in vain
  u32 evictions = 0;

  u64 workload_hash = 0;  // what it runs, with which arguments
  ProfileIndex profile = kNoProfile;
  Demand demand;
  u64 peak = 0;      // bytes that it has had at most
  u64 expected = 0;  // that it will have, if it does as others of its profile; 0: nobody knows …
  bool settled = false;  // … and nobody asks any more: it has been on GPUs for a while
  Time placed{0};        // in all, before the last time
  u64 promised = 0;      // … and was, when it was given its place
  u32 passed = 0;        // times that somebody behind it went first, to better company
  u64 calls = 0;         // of its device, so far
  Stretch stretch;
  std::optional<Time> starving_since;
  // What `since` and `starving_since` were before it was given its first place: who asks once more,
  // for a variable (MC-14), has waited since then.
  std::optional<Time> first_since, first_elder_since;

  u32 failures(GpuIndex g) const {
    auto it = failed.find(g);
    return it == failed.end() ? 0 : it->second;
  }
  u64 requested() const;  // bytes of all requests that were not refused
  u64 granted() const;
  bool blocked() const;  // Placed, and waits for memory without leaving
  // Must be the only one where it is, and cannot leave: its kernels may have used the heap.
  bool alone() const;
  // Must be so, or asks to; until that is granted it can still leave.
  bool wants_alone() const;
  bool waiting() const { return phase == Phase::Pending || (phase == Phase::Evicted && !parked); }
  // Has something on `gpu`, or is about to.
  bool on_gpu() const {
    return phase == Phase::Assigned || phase == Phase::Evicting || phase == Phase::Resuming;
  }
};

}  // namespace ckpt::manager
