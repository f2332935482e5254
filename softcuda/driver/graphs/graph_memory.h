// SPDX-License-Identifier: Apache-2.0
//
// Memory that a graph allocates.
#pragma once

#include "softcuda/driver/graphs/graph.h"

namespace ckpt::softcuda::driver {

// Memory nodes have nothing to do when they run: this decides what a launch allocates and frees.
// CUDA_ERROR_INVALID_VALUE: the graph would allocate memory that is still allocated.
CUresult take_graph_memory(const Graph &g, unsigned long long flags);

// Frees memory that a graph has allocated. False: no graph owns it, and it is freed like any other.
bool free_graph_memory(CUdeviceptr p);

CUresult capture_alloc(Capture &c, Stream &s, size_t bytes, CUdeviceptr *out);
CUresult capture_free(Capture &c, Stream &s, CUdeviceptr p);

}  // namespace ckpt::softcuda::driver
