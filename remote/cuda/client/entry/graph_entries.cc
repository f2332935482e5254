// SPDX-License-Identifier: Apache-2.0
//
// Graphs, their nodes and edges.
#include <algorithm>

#include "remote/cuda/client/graphs/nodes.h"

namespace ckpt::remote::cuda {
namespace {

bool is_default(const CUgraphEdgeData &d) {
  constexpr CUgraphEdgeData kDefault{};
  return std::memcmp(&d, &kDefault, sizeof d) == 0;
}

// An edge as the queries name it.
struct Found {
  Node *from, *to;
  CUgraphEdgeData data;
};

std::vector<Found> edges_in(Node *to) {
  std::vector<Found> all;
  for (const Edge &e : to->after) all.push_back({e.from, to, e.data});
  return all;
}

std::vector<Found> edges_out(Node *from) {
  std::vector<Found> all;
  for (Node *to : from->before)
    all.push_back({from, to, std::ranges::find(to->after, from, &Edge::from)->data});
  return all;
}

// Writes up to *count edges, and null handles behind them; only their number if there is no array.
// CUDA_ERROR_LOSSY_QUERY: edges have data, and there is no array for it.
CUresult list_edges(const std::vector<Found> &all, CUgraphNode *from, CUgraphNode *to,
                    CUgraphEdgeData *data, size_t *count) {
  if (!count || (data && !from && !to)) return CUDA_ERROR_INVALID_VALUE;
  bool asked = from || to;
  if (asked && !data && !std::ranges::all_of(all, is_default, &Found::data))
    return CUDA_ERROR_LOSSY_QUERY;
  size_t room = asked ? *count : 0;
  for (size_t i = 0; i < room; i++) {
    Found f = i < all.size() ? all[i] : Found{};
    if (from) from[i] = handle(f.from);
    if (to) to[i] = handle(f.to);
    if (data) data[i] = f.data;
  }
  *count = asked ? std::min(room, all.size()) : all.size();
  return CUDA_SUCCESS;
}

// f(node)
template <class F>
CUresult with_node(CUgraphNode node, F f) {
  return with_graphs([&](Live &all) {
    Node *n = all.node(node);
    return n ? f(n) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult list_dependencies(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data,
                           size_t *count) {
  return with_node(node,
                   [&](Node *n) { return list_edges(edges_in(n), out, nullptr, data, count); });
}

CUresult list_dependents(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data, size_t *count) {
  return with_node(node,
                   [&](Node *n) { return list_edges(edges_out(n), nullptr, out, data, count); });
}

CUresult list_all_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                        size_t *count) {
  return with_graphs([&](Live &all) {
    Graph *g = all.graph(graph);
    if (!g) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Found> edges;
    for (const auto &[id, n] : g->nodes)
      for (const Found &f : edges_in(n.get())) edges.push_back(f);
    return list_edges(edges, from, to, data, count);
  });
}

// f(from, to, i) for each pair; false: CUDA_ERROR_INVALID_VALUE.
template <class F>
CUresult for_each_pair(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n,
                       F f) {
  return with_graphs([&](Live &all) {
    Graph *g = all.graph(graph);
    if (!g || (n > 0 && (!from || !to))) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
      Node *a = all.node(from[i]), *b = all.node(to[i]);
      if (!a || !b || a->graph != g || b->graph != g || !f(*g, a, b, i))
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  });
}

CUresult connect_all(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                     const CUgraphEdgeData *data, size_t n) {
  return for_each_pair(g, from, to, n, [&](Graph &, Node *a, Node *b, size_t i) {
    return Graph::connect(a, b, data ? data[i] : CUgraphEdgeData{});
  });
}

CUresult disconnect_all(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
  return for_each_pair(g, from, to, n,
                       [](Graph &, Node *a, Node *b, size_t) { return Graph::disconnect(a, b); });
}

// Nodes in place of edges.
template <class Wanted>
CUresult list_nodes(CUgraph graph, CUgraphNode *out, size_t *count, Wanted wanted) {
  return with_graphs([&](Live &all) {
    Graph *g = all.graph(graph);
    if (!g) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Found> nodes;
    for (const auto &[id, n] : g->nodes)
      if (wanted(*n)) nodes.push_back({n.get(), nullptr, {}});
    return list_edges(nodes, out, nullptr, nullptr, count);
  });
}

}  // namespace

CUresult entry_cuGraphCreate(CUgraph *out, unsigned flags) {
  return with_graphs([&](Live &all) {
    if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *out = all.publish(std::make_shared<Graph>());
    return CUDA_SUCCESS;
  });
}

// The graph of a node belongs to the node, and one that a stream records into to the recording.
CUresult entry_cuGraphDestroy(CUgraph graph) {
  return with_graphs([&](Live &all) {
    Graph *g = all.graph(graph);
    if (!g || g->of_node || g->capturing) return CUDA_ERROR_INVALID_VALUE;
    all.end(g);
    return CUDA_SUCCESS;
  });
}

CUresult entry_cuGraphClone(CUgraph *out, CUgraph graph) {
  return with_graphs([&](Live &all) {
    const Graph *g = all.graph(graph);
    if (!out || !g) return CUDA_ERROR_INVALID_VALUE;
    *out = all.publish(g->copy());
    return CUDA_SUCCESS;
  });
}

CUresult entry_cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone) {
  return with_graphs([&](Live &all) {
    const Node *n = all.node(original);
    const Graph *g = all.graph(clone);
    if (!out || !n || !g || g->copied_from != n->graph->id) return CUDA_ERROR_INVALID_VALUE;
    const Node *found = g->find(n->id);
    if (found) *out = handle(found);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult entry_cuGraphDestroyNode(CUgraphNode node) {
  return with_graphs([&](Live &all) {
    Node *n = all.node(node);
    if (!n || n->graph->capturing) return CUDA_ERROR_INVALID_VALUE;
    all.end(n);
    return CUDA_SUCCESS;
  });
}

CUresult entry_cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  return with_graphs([&](Live &all) {
    const Node *n = all.node(node);
    if (!n || !type) return CUDA_ERROR_INVALID_VALUE;
    *type = n->type;
    return CUDA_SUCCESS;
  });
}

CUresult entry_cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out) {
  return with_graphs([&](Live &all) {
    Node *n = all.node(node);
    if (!n || !n->child || !out) return CUDA_ERROR_INVALID_VALUE;
    *out = all.publish_child(*n);
    return CUDA_SUCCESS;
  });
}

CUresult entry_cuGraphGetNodes(CUgraph graph, CUgraphNode *out, size_t *count) {
  return list_nodes(graph, out, count, [](const Node &) { return true; });
}
CUresult entry_cuGraphGetRootNodes(CUgraph graph, CUgraphNode *out, size_t *count) {
  return list_nodes(graph, out, count, [](const Node &n) { return n.after.empty(); });
}

CUresult entry_cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *count) {
  return list_all_edges(g, from, to, nullptr, count);
}
CUresult entry_cuGraphGetEdges_v2(CUgraph g, CUgraphNode *from, CUgraphNode *to,
                                  CUgraphEdgeData *data, size_t *count) {
  return list_all_edges(g, from, to, data, count);
}
CUresult entry_cuGraphNodeGetDependencies(CUgraphNode n, CUgraphNode *out, size_t *count) {
  return list_dependencies(n, out, nullptr, count);
}
CUresult entry_cuGraphNodeGetDependencies_v2(CUgraphNode n, CUgraphNode *out, CUgraphEdgeData *data,
                                             size_t *count) {
  return list_dependencies(n, out, data, count);
}
CUresult entry_cuGraphNodeGetDependentNodes(CUgraphNode n, CUgraphNode *out, size_t *count) {
  return list_dependents(n, out, nullptr, count);
}
CUresult entry_cuGraphNodeGetDependentNodes_v2(CUgraphNode n, CUgraphNode *out,
                                               CUgraphEdgeData *data, size_t *count) {
  return list_dependents(n, out, data, count);
}

CUresult entry_cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                      size_t n) {
  return connect_all(g, from, to, nullptr, n);
}
CUresult entry_cuGraphAddDependencies_v2(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                         const CUgraphEdgeData *data, size_t n) {
  return connect_all(g, from, to, data, n);
}
CUresult entry_cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                         size_t n) {
  return disconnect_all(g, from, to, n);
}
CUresult entry_cuGraphRemoveDependencies_v2(CUgraph g, const CUgraphNode *from,
                                            const CUgraphNode *to, const CUgraphEdgeData *,
                                            size_t n) {
  return disconnect_all(g, from, to, n);
}

}  // namespace ckpt::remote::cuda
