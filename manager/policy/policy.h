// SPDX-License-Identifier: Apache-2.0
//
// The Manager's decisions: messages and measurements go in, orders come out. There is no socket,
// clock or random number, so the same inputs give the same orders. The daemon runs it
// (manager/daemon), and so do tests and simulators.
//
// The problem. Programs share the memory of GPUs, and each allocates at any time. If a GPU has too
// little memory, one program has to leave it for a while, although no program knows of the others.
// A grant must be backed by memory that exists, no program may wait forever, and two programs must
// not wait for each other.
//
// An example. A GPU has 100 MiB, a context takes 10. Programs A and B each have a context and 30
// MiB, so 20 are free.
//     A asks for 40      more than 20: A itself is evicted, its 30 MiB go to the host
//     B asks for 50      60 are free now: granted, and reserved until they are missing in `free`
//     C arrives          pending: it needs 10 for its context, and the 10 that are left are enough
//     B ends             90 are free: A resumes with 10 + 30 + 40, and its request is granted
//
// The algorithm. Each message changes the state of its program (messages.cc). Then one decision is
// made for the whole node (Policy::decide()):
//   1. Accounting computes each GPU again: measured free memory less what is promised (MC-9 to
//   MC-12).
//   2. Running programs that wait for memory come first, or a program that was just evicted would
//      take back what it has left. A request that does not fit evicts its own program (MC-12), or
//      the cheapest one of the GPU.
//   3. Waiting programs follow, by priority and arrival, first fit on any GPU (MC-13). Among those
//      that arrived together, each GPU chooses (cohort.h), and running ones may be exchanged for
//      them (exchange.h). Otherwise placement chooses by demand (placement.h). One that has waited
//      too long is the starving program, for which a GPU is reserved (starvation.h). An exclusive
//      program gets a GPU cleared (exclusivity.h).
//   4. If programs wait, credit is revoked (credit.h), and evicted programs give back what stays of
//      them where that makes room (deepening.h).
//   5. Requests that no waiting could help are denied, and deadlocks broken (denial.h).
//   6. If a GPU is idle, a program moves to it (rebalance.h).
// An eviction ends with the program's SuspendDone, which is a message and so causes the next
// decision: nothing here waits.
//
// Guarantees, if the measurements and reports are true: granted memory exists; each waiting program
// is served, because the programs that have waited too long starve one after the other; a request
// is denied only if no waiting could help.
//
// Cost. A decision is a few passes over the programs and GPUs: 70 us in the median for 1,000
// programs on 4 GPUs (bench/manager).
//
// The source: Suzuki et al., Mobile CUDA. The tags MC-n name its requirements, which docs/PAPERS.md
// explains. Starvation, priorities, credit, cheapest victims, time slices, placement by demand and
// rebalancing are additions.
#pragma once

#include <memory>

#include "manager/policy/placement/interference.h"
#include "manager/policy/profile/work.h"
#include "manager/policy/state.h"

namespace ckpt::manager {

class Policy {
 public:
  Policy(Settings settings, std::vector<Gpu> gpus);
  ~Policy();
  Policy(Policy &&) noexcept;

  // The caller reports what is free before each message, because grants rest on measurements
  // (MC-2). `foreign`, `dying`: as in Gpu. Of a GPU that is not measured, `free` is its capacity
  // minus unmanaged use.
  void measured(GpuIndex gpu, u64 free, bool foreign, bool dying = false);
  // What the driver reports for the program on its GPU, context included. Not called where the
  // driver reports nothing; a context then counts as soon as the program says so.
  void footprint(ProgramId program, u64 bytes);

  // What the driver reports of kernels since the last time; programs without any are left out.
  // Not called where it reports nothing.
  void computed(Time now, std::span<const KernelTime> all);

  // Join adds a program. Until then only Uses is remembered of what it sends.
  Orders receive(Time now, ProgramId from, const managed::ToManager &message);
  // Its connection has ended, so it is removed.
  Orders gone(Time now, ProgramId program);
  // Time has passed. To be called now and then while waits().
  Orders tick(Time now);
  bool waits() const;

  const Settings &settings() const;
  const std::vector<Gpu> &gpus() const;
  const Programs &programs() const;  // in order of arrival
  const Program *find(ProgramId id) const;
  const WorkloadProfiles &profiles() const;
  // Adds what an earlier Manager knew of workloads.
  void learn(Time now, const std::vector<ProfileFacts> &all);
  std::vector<Interference::Finding> findings() const;
  Accounting accounting() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ckpt::manager
