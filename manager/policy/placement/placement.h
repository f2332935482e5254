// SPDX-License-Identifier: Apache-2.0
//
// Placement by demand: which of the waiting programs joins the programs on a GPU.
//
// The problem. With first fit (MC-13), programs share a GPU in order of arrival. Two programs that
// both copy most of their time then take nearly twice as long as alone, although a third program,
// which computes, waits behind them and would have slowed neither down.
//
// An example. One program that computes is on a GPU: demand {kernels 1.0, bus 0.0}. Two programs
// wait, A, which computes too, and B behind it, which copies: {kernels 0.3, bus 0.7}.
//     with A:  kernels 2.0, bus 0.0   stretch 2.0
//     with B:  kernels 1.3, bus 0.7   stretch 1.3   B is placed, and A was passed over once.
//
// The algorithm. The next program in order chooses the GPU (choose_gpu()): where it has not failed
// to resume, that is large enough for what its workload has used, with the fewest programs, with
// the smallest stretch (load.h), with the most free memory. If programs run on that GPU and the
// demand of the next program is known, one of the sixteen programs behind it takes its turn
// (choose_instead()) if the stretch with that one is 5 % smaller or better. A program is passed
// over at most four times, and never for a program of lower priority, so the order changes only
// within bounds. Demands come from the profiles of workloads: what earlier runs of the same
// executable with the same arguments copied per second.
//
// Cost. Each of at most sixteen candidates is one sum over two engines and one check whether it
// fits; no state is kept.
//
// The source. First fit, the limits and the accounting are those of Mobile CUDA (MC-13, MC-18,
// MC-19); its matrix of pairs shows what programs lose beside each other, and bench/mobile/predict
// what the choice gains by it: with four passes and sixteen candidates, as much as with any number.
#pragma once

#include <array>
#include <span>

#include "manager/policy/placement/interference.h"
#include "manager/policy/state.h"

namespace ckpt::manager {

class Placement {
 public:
  Placement(State &state, Interference &interference);

  // The GPU serves the APIs of `p`, and is not known to be unsuited to it.
  bool suits(const Program &p, GpuIndex g) const;
  bool suits_any(const Program &p) const;
  // No GPU is large enough, even if it were empty.
  bool never_fits(const Program &p) const;
  // Earlier runs of its workload have used more than the GPU has.
  bool too_small(const Program &p, GpuIndex g) const;

  // As many programs hold an assignment as may (MC-18), or would with one more.
  bool none_assignable(const Program &p, bool one_is_kept = false) const;
  // It was assigned there, asks again, and needs no more than was expected.
  static bool keeps_place(const Program &p, GpuIndex g);
  bool may_enter(const Program &p, GpuIndex g);
  // It may, but for the memory that it needs.
  bool admits(const Program &p, GpuIndex g) const;
  bool has_room(const Program &p, GpuIndex g) const;

  // The best GPU for `p` now; kNoGpu: it has to wait.
  GpuIndex choose_gpu(const Program &p);
  // The program of `behind` that should be placed on `g` instead of `next`; null: none.
  Program *choose_instead(std::span<Program *const> behind, const Program &next, GpuIndex g);

 private:
  bool keeps_assignment(const Program &p, GpuIndex g) const;
  bool is_for_others(const Program &p, GpuIndex g) const;
  bool kept_apart(const Program &p, GpuIndex g);
  double stretch_with(const Program &p, GpuIndex g) const;
  Program *best_behind(std::span<Program *const> behind, const Program &next, GpuIndex g);

  // For a set of APIs: the number of GPUs that serve it, and the sets of APIs that only these
  // serve.
  struct Servers {
    size_t gpus = 0;
    std::array<bool, managed::kAllApis + 1> within{};
  };
  Servers servers_of(u32 apis) const;

  State &state_;
  Interference &interference_;
  std::array<Servers, managed::kAllApis + 1> servers_;
};

}  // namespace ckpt::manager
