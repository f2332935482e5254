// SPDX-License-Identifier: Apache-2.0
//
// What the Manager knows of one program. Most of it exists only in some phases of the program's
// life, so each phase is a type of its own, and a program holds exactly one of them:
//
//     Unassigned ──Connect──> Pending ──assigned──> Assigned <──MigDone── Resuming
//                                │ again: MC-14         │ Signal or Suspend      ^
//                                └──────────────────> Evicting ──SuspendDone──> Evicted
//
// A phase begins with State::enter() and nowhere else.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "manager/policy/gpu.h"
#include "manager/policy/placement/load.h"
#include "manager/policy/profile/workload_profiles.h"

namespace ckpt::manager {

using ProgramId = u32;  // given by the caller, from 1, never reused

// Memory or code that a program has asked for and not confirmed.
struct Request {
  u32 ticket = 0;
  u64 bytes = 0;
  bool granted = false;
  bool refused = false;  // the program is told when it has resumed
  bool alone = false;    // for code with kernels that use the heap: it needs a GPU for itself
};

// ---- what exists in some phases only

// Memory that a program may allocate without asking (credit.h).
struct Credit {
  u64 bytes = 0;
  std::optional<Time> revoked_at;
};

// Contents of an evicted program on the host; also what an eviction under way will put there.
struct Contents {
  u64 bytes = 0;
  bool on_disk = false;
};

// What an evicted program has not given back: it has left at depth "memory", so its context is
// still on that GPU, with its device variables.
struct Stay {
  GpuIndex gpu = kNoGpu;   // none: it has given everything back
  u64 bytes = 0;           // as measured when it left, otherwise an estimate
  bool deepening = false;  // it was told to give that back …
  Time since{0};           // … at that time
  u32 refusals = 0;        // of that, in a row
  bool fixed = false;      // it does not answer, or has refused too often
};

// A wait for a GPU. The starving program (starvation.h) has both.
struct Wait {
  std::optional<Time> starving_since;
  GpuIndex reserved_gpu = kNoGpu;
};

// A stay on a GPU.
struct Residence {
  GpuIndex gpu = kNoGpu;   // none: a device that is not managed
  bool context = false;    // its context was measured
  u32 context_checks = 0;  // that did not find it
  Credit credit;
  u64 expected = 0;  // memory that was expected of it when it was assigned
  // Its wait before that. A program that asks again, for a device variable (MC-14), resumes it.
  struct Queued {
    Time since{0};
    std::optional<Time> starving_since;
  };
  std::optional<Queued> queued;
};

// ---- the phases

struct Unassigned {};  // has not asked for a GPU

struct Pending {  // waits for its first GPU: it has no context and nothing to save
  Wait wait;
  GpuIndex previous_gpu = kNoGpu;  // it was assigned there, and has asked again
  u64 expected = 0;                // memory that was expected of it there
};

struct Assigned : Residence {};

struct Evicting : Residence {
  Contents contents;
  bool suspend_sent = false;  // Suspend, and not only Signal
  bool unresponsive = false;  // it has not answered in time
  bool rebalancing = false;   // it moves to an idle GPU
  bool memory_only = false;   // its context stays
};

struct Evicted {  // holds no memory of a device, but for its stay: the waiting set
  Contents contents;
  Wait wait;
  bool by_tool = false;  // suspended by a tool: the Manager does not resume it
  Stay stay;
};

struct Resuming {
  GpuIndex gpu = kNoGpu;  // none: a device that is not managed
  Contents contents;
  Stay stay;  // on another GPU it ends when the program moves
};

// The index of the variant.
enum class Phase : u8 { Unassigned, Pending, Assigned, Evicting, Evicted, Resuming };
const char *name_of(Phase phase);

// ---- what a program runs

// A time for which a program ran beside the same programs. It begins with a call of the program.
struct Interval {
  u64 occupancy = 0;  // the GPU's; 0: none
  Time since{0};      // the programs were there since then at the latest
  bool begun = false;
  u64 calls = 0;   // at the program's last call: its calls so far …
  u64 copied = 0;  // … the bytes that they copied …
  Time at{0};      // … and the time of it
};

struct Workload {
  u64 hash = 0;  // of user, executable and arguments; 0: unknown
  ProfileIndex profile = kNoProfile;
  Demand demand;
  u64 calls = 0;          // device work so far
  Time computed{0};       // the time of its kernels so far, as the driver reports it
  Time computed_at{0};    // when it last did
  u64 peak = 0;           // most memory so far, requests included
  u64 expected = 0;       // memory that it will use, by its profile; 0: unknown, or over
  bool settled = false;   // it has been on GPUs long enough to have shown its need
  Time residency{0};      // time on GPUs, without the present stay
  u32 times_skipped = 0;  // another waiting program was placed before it
  Interval interval;
};

struct Program {
  ProgramId id = 0;
  u32 pid = 0;
  std::string name;
  i32 priority = 0;           // higher is more important; below 0: a guest
  u32 apis = managed::kCuda;  // its GPU must serve them
  bool knows_depths = false;  // it can leave without its context
  Time arrived{0};

  std::variant<Unassigned, Pending, Assigned, Evicting, Evicted, Resuming> state;
  Time since{0};  // in this phase

  bool exclusive = false;       // needs a GPU for itself (MC-15) …
  bool late = false;            // … because of code that was loaded after the start
  u64 used = 0;                 // bytes on its GPU, or when it has resumed
  u64 variables = 0;            // bytes of device variables
  bool variables_seen = false;  // they are part of the measured memory
  std::vector<Request> requests;
  GpuIndex cleared_gpu = kNoGpu;  // the GPU that the others leave for it

  Time retry_at{0};                          // after a failed eviction or resumption
  std::string cannot_leave;                  // why its last eviction failed; empty: it did not
  u32 refusals = 0;                          // failed evictions in a row
  std::map<GpuIndex, u32> failed;            // resumptions there, since the last one that worked
  std::map<GpuIndex, std::string> unsuited;  // GPUs that can never run it, and why
  u32 evictions = 0;
  Workload workload;

  Phase phase() const { return static_cast<Phase>(state.index()); }
  bool is(Phase other) const { return phase() == other; }

  const Residence *residence() const {
    if (auto *r = std::get_if<Assigned>(&state)) return r;
    return std::get_if<Evicting>(&state);
  }
  Residence *residence() {
    return const_cast<Residence *>(static_cast<const Program *>(this)->residence());
  }
  // Null unless the program waits for a GPU.
  const Wait *wait() const {
    if (auto *p = std::get_if<Pending>(&state)) return &p->wait;
    auto *e = std::get_if<Evicted>(&state);
    return e != nullptr && !e->by_tool ? &e->wait : nullptr;
  }
  Wait *wait() { return const_cast<Wait *>(static_cast<const Program *>(this)->wait()); }

  GpuIndex gpu() const {
    if (const Residence *r = residence()) return r->gpu;
    auto *r = std::get_if<Resuming>(&state);
    return r != nullptr ? r->gpu : kNoGpu;
  }
  bool context() const {
    const Residence *r = residence();
    return r != nullptr && r->context;
  }
  u64 credit() const {
    const Residence *r = residence();
    return r != nullptr ? r->credit.bytes : 0;
  }
  GpuIndex reserved_gpu() const {
    const Wait *w = wait();
    return w != nullptr ? w->reserved_gpu : kNoGpu;
  }
  GpuIndex previous_gpu() const {
    auto *p = std::get_if<Pending>(&state);
    return p != nullptr ? p->previous_gpu : kNoGpu;
  }
  // Null: nothing of it stays on a GPU that it has left.
  const Stay *stay() const {
    const Stay *s = nullptr;
    if (auto *e = std::get_if<Evicted>(&state)) s = &e->stay;
    if (auto *r = std::get_if<Resuming>(&state)) s = &r->stay;
    return s != nullptr && s->gpu != kNoGpu ? s : nullptr;
  }
  // If it resumes there, it needs neither a context nor the variables that it has.
  bool stays_on(GpuIndex g) const {
    const Stay *s = stay();
    return s != nullptr && s->gpu == g && !s->deepening;
  }
  std::optional<Time> starving_since() const {
    const Wait *w = wait();
    return w != nullptr ? w->starving_since : std::nullopt;
  }
  Contents contents() const;

  // A guest gives its memory to every other program that is not a guest, and never becomes the
  // starving program before such a program.
  bool is_guest() const { return priority < 0; }
  bool waiting() const { return wait() != nullptr; }
  // Uses a device, or is about to.
  bool on_gpu() const { return is(Phase::Assigned) || is(Phase::Evicting) || is(Phase::Resuming); }
  // Assigned, and waits for memory without leaving.
  bool blocked() const {
    if (requests.empty() || !is(Phase::Assigned) || gpu() == kNoGpu) return false;
    return !std::ranges::all_of(requests, &Request::granted);
  }
  bool unresponsive() const;
  bool suspended_by_tool() const;

  u32 failures(GpuIndex g) const {
    auto it = failed.find(g);
    return it == failed.end() ? 0 : it->second;
  }
  // Bytes of all requests that were not refused.
  u64 requested() const {
    u64 sum = 0;
    for (const Request &r : requests)
      if (!r.refused) sum += r.bytes;
    return sum;
  }
  u64 granted() const {
    u64 sum = 0;
    for (const Request &r : requests)
      if (r.granted) sum += r.bytes;
    return sum;
  }
  // Must be the only program of its GPU, and cannot leave: its kernels may have used the heap.
  bool alone() const { return exclusive || asks_alone(true); }
  // The same, or it asks for that. Until the request is granted it can still leave.
  bool wants_alone() const { return exclusive || asks_alone(false); }

 private:
  bool asks_alone(bool granted) const {
    return std::ranges::any_of(requests, [granted](const Request &r) {
      return r.alone && !r.refused && (r.granted || !granted);
    });
  }
};

using Programs = std::vector<std::unique_ptr<Program>>;

}  // namespace ckpt::manager
