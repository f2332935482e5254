// SPDX-License-Identifier: Apache-2.0
//
// Where groups of lanes wait: barriers of a block (bar.*), barriers of a cluster
// (barrier.cluster.*), and instructions that lanes of a warp execute together (shfl.sync, vote.sync
// …).
//
// A group that must wait gets a state other than GroupState::Ready. The group whose arrival
// completes the barrier executes the waiting instructions of all groups, and makes them ready
// again. Lanes that exit also complete barriers, so the scheduler calls the check functions after
// each exit.
#pragma once

#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

// Lanes `m` of group `index`, all of it, arrive at a barrier of their block, the same for all.
void block_barrier(Warp &w, size_t index, const Op &op, Mask m);
// Completes the barriers at which all live threads of the block wait.
void check_barriers(Block &block);

// Lanes `m` of group `index`, all of it, execute an instruction with one member mask. True: all
// members are there, and this group may run on at once.
bool warp_sync(Warp &w, size_t index, const Op &op, Mask m);
// Executes the instruction if all live lanes of `members` wait for it. False: some are missing.
bool try_warp_sync(Warp &w, Mask members);

void cluster_arrive(Warp &w, size_t index, Mask m);
void cluster_wait(Warp &w, size_t index, Mask m);
// Starts the next phase if all live threads of the cluster have arrived.
void check_cluster(Cluster &c);

}  // namespace ckpt::softcuda::vm
