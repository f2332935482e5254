// SPDX-License-Identifier: Apache-2.0
//
// Memory that a graph allocates.
#pragma once

#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

// It belongs to the graph with the node that allocates it, and to the copies of that graph.
// Thread-safe.
struct GraphMemory;

CUresult allocate_for_graph(u64 context, u64 bytes, std::shared_ptr<GraphMemory> &out);
CUdeviceptr address_of(const GraphMemory &m);
void describe(const GraphMemory &m, CUDA_MEM_ALLOC_NODE_PARAMS &out);
bool is_graph_memory(CUdeviceptr p);

// What a launch does with memory that graphs have allocated.
struct MemoryUse {
  std::vector<std::shared_ptr<GraphMemory>> allocated;
  std::vector<u64> freed;
};
// CUDA_ERROR_INVALID_VALUE: a launch would allocate what is still allocated, and the graph does not
// free it by itself.
CUresult use_graph_memory(const MemoryUse &use, bool automatic);

// As cuMemFree: false if no graph has allocated it, so that it is freed like any other.
bool free_graph_memory(CUdeviceptr p);

}  // namespace ckpt::remote::cuda
