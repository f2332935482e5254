// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/guest/graph_nodes.h"

#include <algorithm>
#include <unordered_map>

#include "common/base/topological_order.h"

namespace ckpt::cuda::guest {
namespace {

// Whether the value differs from the one of a node without the attribute.
bool is_set(CUlaunchAttributeID id, const CUlaunchAttributeValue &v) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: return v.accessPolicyWindow.num_bytes != 0;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: return v.cooperative != 0;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      return u64{v.clusterDim.x} * v.clusterDim.y * v.clusterDim.z > 1;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: return v.priority != 0;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return v.memSyncDomain != CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      return v.deviceUpdatableKernelNode.deviceUpdatable != 0;
    default: return false;
  }
}

// An older driver does not know all of them.
void read_attributes(CUgraphNode node, KernelNode &out) {
  for (CUlaunchAttributeID id :
       {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
        CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_PRIORITY,
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE}) {
    CUlaunchAttribute a{};
    a.id = id;
    if (graph_calls().cuGraphKernelNodeGetAttribute(node, id, &a.value) != CUDA_SUCCESS) continue;
    if (!is_set(id, a.value)) continue;
    if (id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
      out.device_updatable = true;
    else
      out.attributes.push_back(a);
  }
}

struct Edge {
  CUgraphNode from, to;
};

// The kinds of edges (programmatic launches) are left out of account: each allows the order of a
// stream.
std::optional<std::vector<Edge>> edges_of(CUgraph graph) {
  size_t n = 0;
  auto get = graph_calls().cuGraphGetEdges_v2;
  if (get(graph, nullptr, nullptr, nullptr, &n) != CUDA_SUCCESS) return std::nullopt;
  std::vector<CUgraphNode> from(n), to(n);
  std::vector<CUgraphEdgeData> kinds(n);
  if (n > 0 && get(graph, from.data(), to.data(), kinds.data(), &n) != CUDA_SUCCESS)
    return std::nullopt;
  std::vector<Edge> edges;
  for (size_t i = 0; i < std::min(n, from.size()); ++i) edges.push_back({from[i], to[i]});
  return edges;
}

}  // namespace

std::optional<std::vector<CUgraphNode>> nodes_of(CUgraph graph) {
  size_t n = 0;
  if (graph_calls().cuGraphGetNodes(graph, nullptr, &n) != CUDA_SUCCESS) return std::nullopt;
  std::vector<CUgraphNode> nodes(n);
  if (n > 0 && graph_calls().cuGraphGetNodes(graph, nodes.data(), &n) != CUDA_SUCCESS)
    return std::nullopt;
  nodes.resize(std::min(n, nodes.size()));
  return nodes;
}

std::optional<std::vector<CUgraphNode>> nodes_in_order(CUgraph graph) {
  std::optional<std::vector<CUgraphNode>> nodes = nodes_of(graph);
  std::optional<std::vector<Edge>> edges = edges_of(graph);
  if (!nodes || !edges) return std::nullopt;
  std::unordered_map<CUgraphNode, u32> numbers;
  for (CUgraphNode node : *nodes) numbers.emplace(node, static_cast<u32>(numbers.size()));
  std::vector<std::vector<u32>> after(nodes->size());
  for (const Edge &e : *edges) {
    if (!numbers.contains(e.from) || !numbers.contains(e.to)) return std::nullopt;
    after[numbers[e.to]].push_back(numbers[e.from]);
  }
  std::optional<std::vector<u32>> order = topological_order(after);
  if (!order) return std::nullopt;
  std::vector<CUgraphNode> sorted;
  for (u32 i : *order) sorted.push_back((*nodes)[i]);
  return sorted;
}

std::optional<CUgraphNodeType> type_of(CUgraphNode node) {
  CUgraphNodeType type{};
  if (graph_calls().cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return std::nullopt;
  return type;
}

std::optional<CUgraph> child_of(CUgraphNode node) {
  CUgraph child = nullptr;
  if (graph_calls().cuGraphChildGraphNodeGetGraph(node, &child) != CUDA_SUCCESS)
    return std::nullopt;
  return child;
}

// Calls for a launch take either handle (CUDA driver API, cuLaunchKernel).
CUfunction KernelNode::function() const {
  return params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
}

std::optional<KernelNode> kernel_node(CUgraphNode node) {
  KernelNode k;
  if (graph_calls().cuGraphKernelNodeGetParams_v2(node, &k.params) != CUDA_SUCCESS)
    return std::nullopt;
  read_attributes(node, k);
  return k;
}

}  // namespace ckpt::cuda::guest
