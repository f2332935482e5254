// SPDX-License-Identifier: Apache-2.0
//
// What all parts of the policy work on: the GPUs and programs of the node, the accounting of the
// present decision, and the orders that it gives.
#pragma once

#include "manager/policy/accounting/accounting.h"

namespace ckpt::manager {

struct Order {
  ProgramId to = 0;
  managed::ToProgram message;
};
using Orders = std::vector<Order>;

// Sums of what programs report stay far from overflowing.
inline u64 sane(u64 bytes) { return bytes < (1ull << 44) ? bytes : 1ull << 44; }

struct State {
  Settings settings;
  std::vector<Gpu> gpus;
  Programs programs;  // in order of arrival
  Time now{0};
  Accounting accounting;
  Orders orders;

  State(Settings settings, std::vector<Gpu> gpus);

  GpuIndex gpu_count() const { return static_cast<GpuIndex>(gpus.size()); }
  Gpu &gpu(GpuIndex g) { return gpus[static_cast<size_t>(g)]; }
  const Gpu &gpu(GpuIndex g) const { return gpus[static_cast<size_t>(g)]; }
  GpuAccount &account(GpuIndex g) { return accounting.gpus[static_cast<size_t>(g)]; }
  const GpuAccount &account(GpuIndex g) const { return accounting.gpus[static_cast<size_t>(g)]; }
  // The GPU with that UUID, as NVML or as OpenCL writes it; kNoGpu: none has it.
  GpuIndex gpu_named(const std::string &uuid) const;

  void count() { accounting = Accounting(gpus, programs, settings); }
  void send(const Program &to, managed::ToProgram message) {
    orders.push_back({to.id, std::move(message)});
  }
  bool has_run(const Program &p, Time least) const { return now - p.since >= least; }
  // A program waits for a GPU, for memory, or for another program to leave.
  bool any_waits() const;

  template <class P>
  void enter(Program &p, P phase) {
    leave_phase(p);
    p.state = std::move(phase);
    enter_phase(p);
  }
  // The programs of its GPU are no longer the same (Gpu::occupancy).
  void occupancy_changes(const Program &p) {
    if (p.gpu() != kNoGpu) gpu(p.gpu()).occupancy++;
  }

 private:
  void leave_phase(Program &p);
  void enter_phase(Program &p);
};

}  // namespace ckpt::manager
