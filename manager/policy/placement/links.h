// SPDX-License-Identifier: Apache-2.0
//
// How much longer programs that copy take beside others, by the contention model (HC,
// schedule/contention), which knows the bandwidths of the node: all its GPUs share the links to the
// processors and the memory. Load (load.h) knows one GPU only, and a factor that was measured on
// one machine.
//
// A program's demand says for which part of its time it copies, but neither in which direction nor
// what its processor moves, so each direction gets half, and the rest counts as no traffic.
#pragma once

#include <span>

#include "schedule/contention/slowdown.h"

namespace ckpt::manager {

// Of the programs `there`, the greatest slowdown beside each other and the programs `elsewhere`, on
// other GPUs. Each figure is the part of a program's time for which it copies.
double slowdown_by_links(std::span<const double> there, std::span<const double> elsewhere,
                         const schedule::Bandwidths &node);

}  // namespace ckpt::manager
