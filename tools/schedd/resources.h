// SPDX-License-Identifier: Apache-2.0
//
// Slurm's words for what jobs need and nodes have.
#pragma once

#include <string_view>

#include "schedule/contention/sharers.h"

namespace ckpt::tools {

// "cpu=4,mem=1.50G,node=2,gres/gpu=1"; what is missing counts as none, but at least one core.
schedule::Resources resources_in(std::string_view tres);

// "gpu:a100:2(S:0-1),shard:8", "gres:gpu:2", "gres/gpu=2" or "gres/gpu": how many GPUs.
unsigned gpus_in(std::string_view gres);

// 0 if it is not a number that can be a count.
unsigned count_in(std::string_view text);

}  // namespace ckpt::tools
