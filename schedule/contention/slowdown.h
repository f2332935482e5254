// SPDX-License-Identifier: Apache-2.0
//
// How much longer a task takes beside others on its node (HC sections 4.4 and 4.5).
//
// Problem. Tasks that each use one core, and some of them a GPU, share three links: the one between
// cores and router, the one between router and memory, and the one between router and GPUs. The
// current stage of each task is not known, only the share of its time that each stage takes.
//
// Example. A task in its Memory stage wants 5.2 GB/s. Beside it, two tasks copy at 2.6 GB/s, each
// byte of which a core reads and writes (5.2 GB/s), and one more is in its Memory stage. The cores
// together get 7.8 GB/s, so each gets 1.95: the task takes 5.2 / 1.95 = 2.67 times as long.
//
// Algorithm. The slowdown is the expected value of that factor over all combinations of stages,
// each with the product of its shares as its probability. The paper sums over 4^(k+1) combinations
// of k neighbours. The factor depends only on how many neighbours are in each stage, so the
// probabilities of these counts suffice. They are built up neighbour by neighbour.
//
// Cost: k (k_m + 1) (k_h + 1) (k_d + 1) additions at most, for k neighbours of which k_m, k_h and
// k_d are ever in each of these stages, and one factor for each possible count: 4 thousand
// additions for 63 CPU tasks, 11 million at most for 63 GPU tasks.
#pragma once

#include <span>

#include "schedule/contention/node.h"

namespace ckpt::schedule {

// How many neighbours are in each of the stages that use a link.
struct StageCounts {
  unsigned memory = 0, host_to_device = 0, device_to_host = 0;
};

// How much slower a task's stage is beside neighbours in these stages; 1 without contention.
double stage_slowdown(Stage own, const StageCounts &neighbours, const Bandwidths &node);

// The task's run time beside the neighbours, divided by its run time alone; at least 1.
double slowdown(const StageShares &task, std::span<const StageShares> neighbours,
                const Bandwidths &node);

}  // namespace ckpt::schedule
