// SPDX-License-Identifier: Apache-2.0
//
// What the driver says of a graph and its nodes.
#pragma once

#include <optional>
#include <vector>

#include "libckpt-cuda/guest/graph_calls.h"
#include "libckpt-cuda/guest/kernels.h"

namespace ckpt::cuda::guest {

// No value: the driver does not say.
std::optional<std::vector<CUgraphNode>> nodes_of(CUgraph graph);
// Each node behind those that it depends on.
std::optional<std::vector<CUgraphNode>> nodes_in_order(CUgraph graph);
std::optional<CUgraphNodeType> type_of(CUgraphNode node);
// Of a node of type GRAPH. It belongs to the node.
std::optional<CUgraph> child_of(CUgraphNode node);

// What a kernel node launches. The arguments lie in the node: they are valid until it changes.
struct KernelNode {
  CUDA_KERNEL_NODE_PARAMS_v2 params{};
  std::vector<CUlaunchAttribute> attributes;  // those that were set
  bool device_updatable = false;              // kernels may change it
  CUfunction function() const;
};
std::optional<KernelNode> kernel_node(CUgraphNode node);

}  // namespace ckpt::cuda::guest
