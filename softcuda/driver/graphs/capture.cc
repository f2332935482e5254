// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/graphs/capture.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "softcuda/driver/graphs/graph.h"

namespace ckpt::softcuda::driver {

std::shared_ptr<Capture> capture_of(Stream &s) { return s.capture; }

// A program may use the handles of a graph and its nodes while they are captured
// (cuStreamGetCaptureInfo).
Node *append(Capture &c, Stream &s, CUgraphNodeType type) {
  Node *n = graph_registry().nodes.add(c.graph->add(type, c.last[&s]));
  n->context = s.context;
  c.last[&s] = {n};
  return n;
}

namespace {

void join_capture(const std::shared_ptr<Capture> &c, Stream &s) {
  s.capture = c;
  if (std::ranges::find(c->streams, &s) == c->streams.end()) c->streams.push_back(&s);
}

Capture &start(Stream &s, std::shared_ptr<Graph> g, CUstreamCaptureMode mode) {
  auto c = std::make_shared<Capture>();
  c->graph = std::move(g);
  c->graph->capturing = true;
  c->origin = &s;
  c->mode = mode;
  c->id = process().next_id++;
  join_capture(c, s);
  return *c;
}

// A graph that is not a child and not the work of a capture that still goes on.
std::shared_ptr<Graph> owned_graph(CUgraph g) {
  std::lock_guard lock(graph_registry().mutex);
  auto it = graph_registry().owned.find(reinterpret_cast<Graph *>(g));
  return it == graph_registry().owned.end() ? nullptr : it->second;
}

// A graph that existed before keeps what was captured into it.
void give_up(Graph &g) {
  g.capturing = false;
  if (owned_graph(reinterpret_cast<CUgraph>(&g)) == nullptr) drop_graph(g);
}

}  // namespace

// A stream that is destroyed does not end its capture.
Capture::~Capture() {
  if (graph->capturing) give_up(*graph);
}

CUresult capture_box(Capture &c, Stream &s, const Box &b) {
  append(c, s, CU_GRAPH_NODE_TYPE_MEMCPY)->box = b;
  return CUDA_SUCCESS;
}

CUresult capture_fill(Capture &c, Stream &s, const Fill &f) {
  append(c, s, CU_GRAPH_NODE_TYPE_MEMSET)->fill = f;
  return CUDA_SUCCESS;
}

CUresult capture_launch(Capture &c, Stream &s, const Launch &l) {
  append(c, s, CU_GRAPH_NODE_TYPE_KERNEL)->launch = l;
  return CUDA_SUCCESS;
}

CUresult capture_values(Capture &c, Stream &s, std::vector<ValueOperation> all) {
  append(c, s, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)->values = std::move(all);
  return CUDA_SUCCESS;
}

CUresult capture_host(Capture &c, Stream &s, CUhostFn f, void *data) {
  Node *n = append(c, s, CU_GRAPH_NODE_TYPE_HOST);
  n->host = f;
  n->host_data = data;
  return CUDA_SUCCESS;
}

CUresult capture_record(const std::shared_ptr<Capture> &c, Stream &s, Event &e) {
  std::lock_guard lock(e.mutex);
  e.capture = c;
  e.captured.clear();
  for (Node *n : c->last[&s]) e.captured.push_back(reinterpret_cast<CUgraphNode>(n));
  return CUDA_SUCCESS;
}

CUresult capture_wait(Stream &s, Event &e) {
  REQUIRE(s.capture == nullptr || s.capture == e.capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  join_capture(e.capture, s);
  std::vector<Node *> &last = e.capture->last[&s];
  for (CUgraphNode n : e.captured) last.push_back(reinterpret_cast<Node *>(n));
  return CUDA_SUCCESS;
}

void capture_info(Capture &c, Stream &s, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
                  size_t *count) {
  const std::vector<Node *> &last = c.last[&s];
  if (id != nullptr) *id = c.id;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(c.graph.get());
  if (nodes != nullptr) *nodes = reinterpret_cast<const CUgraphNode *>(last.data());
  if (count != nullptr) *count = last.size();
}

CUresult begin_capture(Stream &s, CUstreamCaptureMode mode) {
  REQUIRE(s.capture == nullptr, CUDA_ERROR_ILLEGAL_STATE);
  auto g = std::make_shared<Graph>();
  graph_registry().graphs.add(g.get());
  start(s, std::move(g), mode);
  return CUDA_SUCCESS;
}

CUresult begin_capture_to(Stream &s, CUgraph graph, const CUgraphNode *after, size_t n,
                          CUstreamCaptureMode mode) {
  REQUIRE(s.capture == nullptr, CUDA_ERROR_ILLEGAL_STATE);
  std::shared_ptr<Graph> g = owned_graph(graph);
  REQUIRE(g != nullptr && !g->capturing, CUDA_ERROR_INVALID_VALUE);
  std::vector<Node *> list;
  CHECK_CU(nodes_in(*g, after, n, list));
  start(s, std::move(g), mode).last[&s] = std::move(list);
  return CUDA_SUCCESS;
}

CUresult update_dependencies(Stream &s, const CUgraphNode *nodes, size_t n, unsigned flags) {
  REQUIRE(s.capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  REQUIRE(
      flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES || flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES,
      CUDA_ERROR_INVALID_VALUE);
  std::vector<Node *> list;
  CHECK_CU(nodes_in(*s.capture->graph, nodes, n, list));
  std::vector<Node *> &last = s.capture->last[&s];
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) last.clear();
  for (Node *node : list)
    if (std::ranges::find(last, node) == last.end()) last.push_back(node);
  return CUDA_SUCCESS;
}

void leave_capture(Stream &s) {
  std::shared_ptr<Capture> c = std::exchange(s.capture, nullptr);
  if (!c) return;
  std::erase(c->streams, &s);
  if (auto nodes = c->last.extract(&s))
    std::ranges::copy(nodes.mapped(), std::back_inserter(c->left));
}

namespace {

// Whether the capture's origin, which ends it, waits for this node.
bool is_joined(Capture &c, const Node *n) {
  auto follows = [n](const std::unique_ptr<Node> &m) {
    return std::ranges::find(m->after, n) != m->after.end();
  };
  const std::vector<Node *> &last = c.last[c.origin];
  return std::ranges::any_of(c.graph->nodes, follows) || std::ranges::find(last, n) != last.end();
}

}  // namespace

CUresult end_capture(Stream &s, CUgraph *graph) {
  std::shared_ptr<Capture> c = s.capture;
  *graph = nullptr;
  REQUIRE(c != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  REQUIRE(c->origin == &s, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  // Every other stream of the capture must have been joined to this one again.
  std::vector<Node *> ends = std::move(c->left);
  for (Stream *other : c->streams) {
    other->capture.reset();
    std::ranges::copy(c->last[other], std::back_inserter(ends));
  }
  if (!std::ranges::all_of(ends, [&](const Node *n) { return is_joined(*c, n); })) {
    give_up(*c->graph);
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  c->graph->capturing = false;
  std::lock_guard lock(graph_registry().mutex);
  graph_registry().owned[c->graph.get()] = c->graph;
  *graph = reinterpret_cast<CUgraph>(c->graph.get());
  return CUDA_SUCCESS;
}

}  // namespace ckpt::softcuda::driver
