// SPDX-License-Identifier: Apache-2.0
//
// Updates of an executable graph, or of a child graph in it, with another graph of the same shape.
// Nodes are paired in the order in which they were made, which is stricter than on NVIDIA's driver:
// there, graphs with the same edges may be made in another order.
#include <algorithm>
#include <unordered_map>

#include "softcuda/driver/graphs/graph.h"

using namespace ckpt::softcuda::driver;

namespace {

CUgraphNode handle(const Node *n) { return reinterpret_cast<CUgraphNode>(const_cast<Node *>(n)); }

using Places = std::unordered_map<const Node *, size_t>;

Places places(const Graph &g) {
  Places all;
  for (const std::unique_ptr<Node> &n : g.nodes) all.emplace(n.get(), all.size());
  return all;
}

CUgraphExecUpdateResultInfo compare(const Graph &mine, const Graph &by);

CUgraphExecUpdateResultInfo compare(const Node &mine, const Places &places_of_mine, const Node &by,
                                    const Places &places_of_by) {
  auto differs = [&](CUgraphExecUpdateResult why) {
    return CUgraphExecUpdateResultInfo{why, handle(&by), nullptr};
  };
  if (mine.type != by.type) return differs(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  bool same = std::ranges::equal(mine.after, by.after, [&](const Node *a, const Node *b) {
    return places_of_mine.at(a) == places_of_by.at(b);
  });
  if (!same) return differs(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  if (mine.launch.cooperative != by.launch.cooperative)
    return differs(CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
  return mine.child ? compare(*mine.child, *by.child) : CUgraphExecUpdateResultInfo{};
}

CUgraphExecUpdateResultInfo compare(const Graph &mine, const Graph &by) {
  if (mine.nodes.size() != by.nodes.size())
    return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr, nullptr};
  CUgraphExecUpdateResultInfo info{};
  const Places a = places(mine), b = places(by);
  for (size_t i = 0; i < mine.nodes.size() && info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS; ++i)
    info = compare(*mine.nodes[i], a, *by.nodes[i], b);
  return info;
}

// The nodes of the executable graph stay, so handles of its original graph still mean them.
void take_work(Graph &mine, const Graph &by, std::map<const Node *, Node *> &clones) {
  for (size_t i = 0; i < mine.nodes.size(); ++i) {
    Node &m = *mine.nodes[i];
    Node n = *by.nodes[i];
    n.graph = m.graph;
    n.original = m.original;
    n.after = m.after;
    n.enabled = m.enabled;
    n.child = m.child;
    m = std::move(n);
    clones[by.nodes[i].get()] = &m;
    if (m.child) take_work(*m.child, *by.nodes[i]->child, clones);
  }
  mine.objects = by.objects;
}

}  // namespace

SOFTCUDA_API CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                           CUgraphExecUpdateResultInfo *info) {
  CALL_INITIALISED();
  ExecutableGraph *e = graph_registry().execs.get(exec);
  const Graph *g = graph_registry().graphs.get(graph);
  REQUIRE(e != nullptr && g != nullptr && info != nullptr, CUDA_ERROR_INVALID_VALUE);
  *info = compare(*e->graph, *g);
  REQUIRE(info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  take_work(*e->graph, *g, e->clones);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                         CUgraph child) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(exec_node_of(exec, node, CU_GRAPH_NODE_TYPE_GRAPH, n));
  const Graph *g = graph_registry().graphs.get(child);
  REQUIRE(g != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(compare(*n->child, *g).result == CU_GRAPH_EXEC_UPDATE_SUCCESS, CUDA_ERROR_INVALID_VALUE);
  take_work(*n->child, *g, graph_registry().execs.get(exec)->clones);
  return CUDA_SUCCESS;
}
