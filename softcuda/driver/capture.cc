// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/capture.h"

#include <algorithm>

#include "softcuda/driver/graph.h"

namespace ckpt::softcuda::driver {

std::shared_ptr<Capture> capture_of(Stream &s) { return s.capture; }

Node *append(Capture &c, Stream &s, CUgraphNodeType type) {
  Node *n = c.graph->add(type, c.last[&s]);
  n->context = s.context;
  c.last[&s] = {n};
  return n;
}

namespace {

void join_capture(const std::shared_ptr<Capture> &c, Stream &s) {
  s.capture = c;
  if (std::ranges::find(c->streams, &s) == c->streams.end()) c->streams.push_back(&s);
}

}  // namespace

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
  auto c = std::make_shared<Capture>();
  c->origin = &s;
  c->mode = mode;
  c->id = process().next_id++;
  join_capture(c, s);
  return CUDA_SUCCESS;
}

CUresult end_capture(Stream &s, CUgraph *graph) {
  std::shared_ptr<Capture> c = s.capture;
  *graph = nullptr;
  REQUIRE(c != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  REQUIRE(c->origin == &s, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  // Every other stream of the capture must have been joined to this one again.
  bool unjoined = false;
  for (Stream *other : c->streams) {
    other->capture.reset();
    if (other == &s) continue;
    for (Node *n : c->last[other]) {
      bool followed = std::ranges::any_of(c->graph->nodes, [&](const std::unique_ptr<Node> &m) {
        return std::ranges::find(m->after, n) != m->after.end();
      });
      unjoined |= !followed && std::ranges::find(c->last[&s], n) == c->last[&s].end();
    }
  }
  REQUIRE(!unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  std::lock_guard lock(graph_registry().mutex);
  graph_registry().graphs.add(c->graph.get());
  for (const std::unique_ptr<Node> &n : c->graph->nodes) graph_registry().nodes.add(n.get());
  graph_registry().owned[c->graph.get()] = c->graph;
  *graph = reinterpret_cast<CUgraph>(c->graph.get());
  return CUDA_SUCCESS;
}

}  // namespace ckpt::softcuda::driver
