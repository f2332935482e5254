// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/graphs/graph.h"

#include <algorithm>
#include <set>

#include "softcuda/driver/graphs/capture.h"
#include "softcuda/driver/graphs/graph_memory.h"

namespace ckpt::softcuda::driver {

GraphRegistry &graph_registry() {
  static GraphRegistry *const kRegistry = new GraphRegistry;
  return *kRegistry;
}

Node *Graph::add(CUgraphNodeType type, std::vector<Node *> after) {
  Node &n = *nodes.emplace_back(std::make_unique<Node>());
  n.graph = this;
  n.type = type;
  n.after = std::move(after);
  return &n;
}

std::shared_ptr<Graph> Graph::copy(std::map<const Node *, Node *> &clones) const {
  auto g = std::make_shared<Graph>();
  for (const std::unique_ptr<Node> &n : nodes) {
    Node &m = *g->nodes.emplace_back(std::make_unique<Node>(*n));
    m.graph = g.get();
    m.original = n.get();
    if (n->child) m.child = n->child->copy(clones);
    clones[n.get()] = &m;
  }
  for (const std::unique_ptr<Node> &m : g->nodes)
    for (Node *&before : m->after) before = clones[before];
  g->objects = objects;
  return g;
}

std::vector<Node *> Graph::in_order() const {
  std::vector<Node *> order;
  std::set<const Node *> done;
  while (order.size() < nodes.size()) {
    size_t before = order.size();
    for (const std::unique_ptr<Node> &n : nodes) {
      if (done.contains(n.get())) continue;
      if (!std::ranges::all_of(n->after, [&](Node *a) { return done.contains(a); })) continue;
      done.insert(n.get());
      order.push_back(n.get());
    }
    if (order.size() == before) return {};
  }
  return order;
}

namespace {

void run_graph(Context *c, const Graph &g);

void run_node(Context *c, const Node &n) {
  if (!n.enabled) return;
  switch (n.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return run(n.context != nullptr ? n.context : c, n.launch);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return run(c, n.box);
    case CU_GRAPH_NODE_TYPE_MEMSET: return run(n.fill);
    case CU_GRAPH_NODE_TYPE_HOST: n.host(n.host_data); return set_model_time_to_now();
    case CU_GRAPH_NODE_TYPE_GRAPH: return run_graph(c, *n.child);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: n.record->nanoseconds = event_time(); return;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      if (n.record) n.record->wait();
      return;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      for (const ValueOperation &o : n.values) run(o);
      return;
    default: return;
  }
}

void run_graph(Context *c, const Graph &g) {
  for (Node *n : g.in_order()) {
    if (c->error != CUDA_SUCCESS) return;
    run_node(c, *n);
  }
}

Graph *graph_of(CUgraph g) { return graph_registry().graphs.get(g); }

// The nodes of a graph, and its child graphs with theirs, are no handles any more.
void drop_handles(const Graph &g) {
  for (const std::unique_ptr<Node> &n : g.nodes) {
    graph_registry().nodes.remove(n.get());
    if (!n->child) continue;
    graph_registry().graphs.remove(n->child.get());
    drop_handles(*n->child);
  }
}

void drop_node(Node *n) {
  Graph *g = n->graph;
  graph_registry().nodes.remove(n);
  if (n->child) {
    graph_registry().graphs.remove(n->child.get());
    drop_handles(*n->child);
  }
  for (const std::unique_ptr<Node> &m : g->nodes) std::erase(m->after, n);
  std::erase_if(g->nodes, [&](const std::unique_ptr<Node> &m) { return m.get() == n; });
}

// New parameters leave the attributes of a node as they are.
CUresult kernel_launch(Context *c, const CUDA_KERNEL_NODE_PARAMS *p, Launch &l) {
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  const void *f = p->func != nullptr ? static_cast<const void *>(p->func) : p->kern;
  return make_launch(c, f, {p->gridDimX, p->gridDimY, p->gridDimZ},
                     {p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes, p->kernelParams,
                     p->extra, l.cooperative, l);
}

}  // namespace

CUresult nodes_in(const Graph &g, const CUgraphNode *handles, size_t n, std::vector<Node *> &out) {
  REQUIRE(handles != nullptr || n == 0, CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < n; ++i) {
    Node *a = graph_registry().nodes.get(handles[i]);
    REQUIRE(a != nullptr && a->graph == &g, CUDA_ERROR_INVALID_VALUE);
    out.push_back(a);
  }
  return CUDA_SUCCESS;
}

void drop_graph(const Graph &g) {
  graph_registry().graphs.remove(&g);
  drop_handles(g);
}

CUresult new_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n,
                  CUgraphNodeType type, Node *&node) {
  Graph *g = graph_of(graph);
  REQUIRE(out != nullptr && g != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::vector<Node *> list;
  CHECK_CU(nodes_in(*g, after, n, list));
  node = graph_registry().nodes.add(g->add(type, std::move(list)));
  *out = reinterpret_cast<CUgraphNode>(node);
  return CUDA_SUCCESS;
}

CUresult fill_of(const CUDA_MEMSET_NODE_PARAMS *p, Fill &f) {
  REQUIRE(p != nullptr && (p->elementSize == 1 || p->elementSize == 2 || p->elementSize == 4),
          CUDA_ERROR_INVALID_VALUE);
  f = {nullptr, p->pitch, p->width, p->height, p->elementSize, p->value, p->dst};
  f.dst = process().memory->host(p->dst, (p->height - 1) * p->pitch + p->width * p->elementSize);
  return f.dst != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult node_in(CUgraphExec exec, CUgraphNode node, Node *&out) {
  ExecutableGraph *e = graph_registry().execs.get(exec);
  REQUIRE(e != nullptr, CUDA_ERROR_INVALID_VALUE);
  auto it = e->clones.find(reinterpret_cast<Node *>(node));
  REQUIRE(it != e->clones.end(), CUDA_ERROR_INVALID_VALUE);
  out = it->second;
  return CUDA_SUCCESS;
}

CUresult list_nodes(const std::vector<Node *> &list, CUgraphNode *out, size_t *n) {
  REQUIRE(n != nullptr, CUDA_ERROR_INVALID_VALUE);
  if (out != nullptr)
    for (size_t i = 0; i < *n; ++i)
      out[i] = i < list.size() ? reinterpret_cast<CUgraphNode>(list[i]) : nullptr;
  *n = out == nullptr ? list.size() : std::min(*n, list.size());
  return CUDA_SUCCESS;
}

CUresult check_exec(CUgraphExec exec) {
  return graph_registry().execs.holds(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Runs a copy of the graph, because the program may update the original while it runs. A launch
// waits for the one before, whichever stream that was in (CUDA driver API, cuGraphLaunch).
CUresult launch_graph(CUgraphExec exec, Stream &s) {
  ExecutableGraph *e = graph_registry().execs.get(exec);
  REQUIRE(e != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::map<const Node *, Node *> clones;
  std::shared_ptr<Graph> g = e->graph->copy(clones);
  if (std::shared_ptr<Capture> c = capture_of(s)) {
    append(*c, s, CU_GRAPH_NODE_TYPE_GRAPH)->child = g;
    return CUDA_SUCCESS;
  }
  CHECK_CU(take_graph_memory(*g, e->flags));
  take_events(*g);
  std::vector<Point> before;
  if (e->end) before.push_back(*e->end);
  e->end = s.context->submit(
      s, [c = s.context, g] { run_graph(c, *g); }, before);
  publish_events(*g, *e->end);
  return CUDA_SUCCESS;
}

}  // namespace ckpt::softcuda::driver

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuGraphCreate(CUgraph *out, unsigned int flags) {
  CALL_INITIALISED();
  REQUIRE(out != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
  auto g = std::make_shared<Graph>();
  std::lock_guard lock(graph_registry().mutex);
  graph_registry().owned[g.get()] = g;
  *out = reinterpret_cast<CUgraph>(graph_registry().graphs.add(g.get()));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphDestroy(CUgraph graph) {
  CALL_INITIALISED();
  Graph *g = graph_registry().graphs.get(graph);
  REQUIRE(g != nullptr && !g->capturing && graph_registry().graphs.remove(g),
          CUDA_ERROR_INVALID_VALUE);
  drop_handles(*g);
  std::lock_guard lock(graph_registry().mutex);
  graph_registry().owned.erase(g);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphClone(CUgraph *out, CUgraph graph) {
  CALL_INITIALISED();
  Graph *g = graph_of(graph);
  REQUIRE(out != nullptr && g != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::map<const Node *, Node *> clones;
  std::shared_ptr<Graph> copy = g->copy(clones);
  std::lock_guard lock(graph_registry().mutex);
  for (const std::unique_ptr<Node> &n : copy->nodes) graph_registry().nodes.add(n.get());
  graph_registry().owned[copy.get()] = copy;
  *out = reinterpret_cast<CUgraph>(graph_registry().graphs.add(copy.get()));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                          size_t n) {
  CALL_INITIALISED();
  Node *node = nullptr;
  return new_node(out, graph, after, n, CU_GRAPH_NODE_TYPE_EMPTY, node);
}

SOFTCUDA_API CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph,
                                              const CUgraphNode *after, size_t n,
                                              const CUDA_KERNEL_NODE_PARAMS *p) {
  CALL_WITH_CONTEXT();
  Launch l;
  CHECK_CU(kernel_launch(call.context, p, l));
  Node *node = nullptr;
  CHECK_CU(new_node(out, graph, after, n, CU_GRAPH_NODE_TYPE_KERNEL, node));
  node->launch = std::move(l);
  node->context = call.context;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph,
                                           const CUgraphNode *after, size_t n,
                                           const CUDA_MEMCPY3D *p, CUcontext) {
  CALL_INITIALISED();
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  Box b;
  CHECK_CU(box_of(*p, b));
  Node *node = nullptr;
  CHECK_CU(new_node(out, graph, after, n, CU_GRAPH_NODE_TYPE_MEMCPY, node));
  node->box = b;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph,
                                           const CUgraphNode *after, size_t n,
                                           const CUDA_MEMSET_NODE_PARAMS *p, CUcontext) {
  CALL_INITIALISED();
  Fill f;
  CHECK_CU(fill_of(p, f));
  Node *node = nullptr;
  CHECK_CU(new_node(out, graph, after, n, CU_GRAPH_NODE_TYPE_MEMSET, node));
  node->fill = f;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                         size_t n, const CUDA_HOST_NODE_PARAMS *p) {
  CALL_INITIALISED();
  REQUIRE(p != nullptr && p->fn != nullptr, CUDA_ERROR_INVALID_VALUE);
  Node *node = nullptr;
  CHECK_CU(new_node(out, graph, after, n, CU_GRAPH_NODE_TYPE_HOST, node));
  node->host = p->fn;
  node->host_data = p->userData;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph,
                                               const CUgraphNode *after, size_t n, CUgraph child) {
  CALL_INITIALISED();
  Graph *g = graph_of(child);
  REQUIRE(g != nullptr, CUDA_ERROR_INVALID_VALUE);
  Node *node = nullptr;
  CHECK_CU(new_node(out, graph, after, n, CU_GRAPH_NODE_TYPE_GRAPH, node));
  std::map<const Node *, Node *> clones;
  node->child = g->copy(clones);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                                const CUgraphNode *to, const CUgraphEdgeData *,
                                                size_t n) {
  CALL_INITIALISED();
  REQUIRE(graph_of(graph) != nullptr, CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < n; ++i) {
    Node *a = graph_registry().nodes.get(from[i]), *b = graph_registry().nodes.get(to[i]);
    REQUIRE(a != nullptr && b != nullptr && a != b, CUDA_ERROR_INVALID_VALUE);
    b->after.push_back(a);
  }
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphDestroyNode(CUgraphNode node) {
  CALL_INITIALISED();
  Node *n = graph_registry().nodes.get(node);
  REQUIRE(n != nullptr && !n->graph->capturing, CUDA_ERROR_INVALID_VALUE);
  drop_node(n);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n) {
  CALL_INITIALISED();
  Graph *g = graph_of(graph);
  REQUIRE(g != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::vector<Node *> list;
  for (const std::unique_ptr<Node> &m : g->nodes) list.push_back(m.get());
  return list_nodes(list, nodes, n);
}

SOFTCUDA_API CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *n) {
  CALL_INITIALISED();
  Graph *g = graph_of(graph);
  REQUIRE(g != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::vector<Node *> list;
  for (const std::unique_ptr<Node> &m : g->nodes)
    if (m->after.empty()) list.push_back(m.get());
  return list_nodes(list, nodes, n);
}

SOFTCUDA_API CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  CALL_INITIALISED();
  Node *n = graph_registry().nodes.get(node);
  REQUIRE(n != nullptr && type != nullptr, CUDA_ERROR_INVALID_VALUE);
  *type = n->type;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                                  unsigned long long flags) {
  CALL_INITIALISED();
  Graph *g = graph_of(graph);
  REQUIRE(out != nullptr && g != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(!g->capturing && (g->nodes.empty() || !g->in_order().empty()), CUDA_ERROR_INVALID_VALUE);
  auto e = std::make_unique<ExecutableGraph>();
  e->graph = g->copy(e->clones);
  e->flags = flags;
  *out = reinterpret_cast<CUgraphExec>(graph_registry().execs.add(e.release()));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphExecDestroy(CUgraphExec exec) {
  CALL_INITIALISED();
  ExecutableGraph *e = graph_registry().execs.get(exec);
  REQUIRE(e != nullptr && graph_registry().execs.remove(e), CUDA_ERROR_INVALID_VALUE);
  delete e;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
                                                    const CUDA_KERNEL_NODE_PARAMS *p) {
  CALL_WITH_CONTEXT();
  Node *n = graph_registry().nodes.get(node);
  REQUIRE(n != nullptr && n->type == CU_GRAPH_NODE_TYPE_KERNEL, CUDA_ERROR_INVALID_VALUE);
  return kernel_launch(call.context, p, n->launch);
}

SOFTCUDA_API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                        const CUDA_KERNEL_NODE_PARAMS *p) {
  CALL_WITH_CONTEXT();
  Node *n = nullptr;
  CHECK_CU(node_in(exec, node, n));
  REQUIRE(n->type == CU_GRAPH_NODE_TYPE_KERNEL, CUDA_ERROR_INVALID_VALUE);
  return kernel_launch(call.context, p, n->launch);
}
