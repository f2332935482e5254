// SPDX-License-Identifier: Apache-2.0
//
// New nodes of graphs.
#pragma once

#include "remote/cuda/client/graphs/live.h"

namespace ckpt::remote::cuda {

// Where a new node is to be.
struct NewNode {
  CUgraphNode *out;
  CUgraph graph;
  const CUgraphNode *after;
  size_t count;
  const CUgraphEdgeData *edges = nullptr;  // of `after`; may be null
};

CUresult add_node(const NewNode &n, CUgraphNodeType type, WorkPointer work,
                  std::shared_ptr<Graph> child = nullptr);

// Edges from nodes of this graph, each of which is named once. The lock is held.
CUresult edges_from(const Live &all, const Graph &g, const CUgraphNode *from,
                    const CUgraphEdgeData *data, size_t n, std::vector<Edge> &out);

}  // namespace ckpt::remote::cuda
