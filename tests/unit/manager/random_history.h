// SPDX-License-Identifier: Apache-2.0
//
// A random history of a node: the simulation counts each byte of device memory, programs allocate,
// free, end, are killed or cannot be suspended, messages arrive late, and the Manager is restarted.
// In half of the histories, programs use CUDA and OpenCL on GPUs that serve either or both, with
// and without measurements. The guarantees of the Manager (policy.h) are checked at each step.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "manager/policy/policy.h"

namespace ckpt::manager {

class History {
 public:
  explicit History(u64 seed);
  // The first guarantee that was broken; empty: none was.
  std::string run();
  u64 decisions() const { return decisions_; }
  u64 evictions() const { return evictions_; }
  u64 denials() const { return denials_; }
  u64 late_exclusives() const { return late_exclusives_; }
  // A hash of all orders without their texts: a refactoring must not change it.
  u64 digest() const { return digest_; }
  u64 unasked() const { return unasked_; }
  u64 stays() const { return stays_; }
  u64 deepenings() const { return deepenings_; }

 private:
  enum class At : u8 { Start, Connecting, Assigned, Running, Suspended, Ended };
  struct Ask {
    u64 bytes = 0;
    u64 wanted = 0;  // the memory of its program with this and all earlier requests
    bool granted = false;
    u32 attempts = 0;
    bool load = false, alone = false;  // code; code that uses the heap
    bool before_eviction = false;      // it was granted before the last eviction
  };
  struct Sim {
    std::optional<u64> context;  // its cost, as the Manager reports it
    ProgramId id = 0;            // of this connection
    At at = At::Start;
    GpuIndex gpu = kNoGpu;
    u64 variables = 0, told = 0;  // told: variables reported so far
    u64 used = 0, held = 0;       // held: on its GPU, context included
    u64 said = 0;                 // the part of `used` that was reported
    u64 credit = 0, spare = 0;    // from the Manager; the part that is not in use
    bool late = false;            // loads code that uses the heap after its start
    bool exclusive = false, fixed = false, checked = false, signalled = false;
    u32 apis = managed::kCuda;
    u32 further = 0;        // an API that it will add
    bool starting = false;  // that API, right now
    bool picky = false;     // runs on its first GPU only
    GpuIndex first = kNoGpu;
    bool knows_depths = false;
    GpuIndex stays_on = kNoGpu;  // evicted: its context and variables (`held`) are still there
    u32 refusals = 0;            // of Deepen, in a row
    std::set<GpuIndex> refused;  // it has reported these as unsuited
    u32 left = 0;                // actions until it ends
    u32 tickets = 0;
    u64 profile = 0, calls = 0;
    std::map<u32, Ask> asks;
    std::deque<managed::ToManager> sent;
    std::deque<managed::ToProgram> received;
  };

  u64 upto(u64 n) { return random_() % (n + 1); }
  bool one_in(u64 n) { return random_() % n == 0; }
  void broken(const std::string &what);

  void turn();
  void live(Sim &s);
  void live_on(Sim &s);
  void mix();
  void start_further(Sim &s);
  bool served(const Sim &s, GpuIndex gpu) const;
  u64 context_on(GpuIndex gpu) const;
  void connected(Sim &s, GpuIndex gpu);
  void make_context(Sim &s);
  bool never_had(GpuIndex gpu, u64 bytes) const;
  static bool taken_back(const Sim &s, u32 ticket);
  bool retried(Sim &s, u32 ticket, const Ask &ask);
  void allocate(Sim &s);
  void report(Sim &s);
  void ask(Sim &s, u32 ticket);
  void did(Sim &s, u32 ticket, const Ask &ask);
  void free_some(Sim &s);
  static void give_back(Sim &s);
  void end(Sim &s, bool killed);
  void hear(Sim &s);
  void hear(Sim &s, const managed::ToProgram &message);
  void answer_signal(Sim &s);
  void denied(Sim &s, u32 ticket);
  void suspended(Sim &s, bool memory_only);
  void deepened(Sim &s);
  void leave_context(Sim &s);
  static managed::to_manager::Uses uses(const Sim &s);
  static GpuIndex place_of(const Sim &s) { return s.gpu != kNoGpu ? s.gpu : s.stays_on; }
  void migrated(Sim &s, GpuIndex gpu);
  void deliver(Sim &s);
  void restart();
  void measure();
  void take_orders(const Orders &orders);
  void take(Sim &s, u64 bytes);
  void give_all(Sim &s);
  void check();
  GpuIndex gpu_named(const std::string &uuid) const;
  std::unique_ptr<Policy> new_policy() const;

  std::mt19937_64 random_;
  Settings settings_;
  std::vector<u64> total_, free_;
  std::vector<u32> apis_;  // that a GPU serves; one that serves only OpenCL is not measured
  u64 context_ = 0;
  bool strict_ = true;  // nothing in this history is a reason to deny a request that fits
  std::unique_ptr<Policy> policy_;
  std::vector<Sim> sims_;
  ProgramId next_id_ = 1;
  Time now_{0};
  u64 digest_ = 1469598103934665603ull;
  u64 decisions_ = 0, evictions_ = 0, denials_ = 0, late_exclusives_ = 0, unasked_ = 0;
  u64 stays_ = 0, deepenings_ = 0;
  std::string broken_;
};

}  // namespace ckpt::manager
