// SPDX-License-Identifier: Apache-2.0
//
// Graphs of work. They are built node by node, or by capturing streams. A launch executes the nodes
// one after the other, in an order that their dependencies allow.
#pragma once

#include <functional>
#include <optional>

#include "softcuda/driver/work/launch.h"
#include "softcuda/driver/work/transfer.h"
#include "softcuda/driver/work/value_operations.h"

namespace ckpt::softcuda::driver {

struct Graph;
struct GraphMemory;
struct UserObject;

struct Node {
  Graph *graph = nullptr;
  const Node *original = nullptr;  // if the graph is a copy
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::vector<Node *> after;
  // The work; which members are used depends on the type.
  Context *context = nullptr;
  Launch launch;
  Box box;
  Fill fill;
  CUhostFn host = nullptr;
  void *host_data = nullptr;
  std::shared_ptr<Graph> child;
  Event *event = nullptr;
  std::shared_ptr<Record> record;       // of one launch: what it records or waits for
  std::shared_ptr<GraphMemory> memory;  // that it allocates
  std::vector<ValueOperation> values;
  u64 freed = 0;  // address of the memory that it frees
  bool enabled = true;
  std::vector<void *> arguments;  // for cuGraphKernelNodeGetParams: into launch.params
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::shared_ptr<UserObject>> objects;  // one for each reference
  bool capturing = false;                            // until then it cannot be instantiated

  Node *add(CUgraphNodeType type, std::vector<Node *> after);
  // `clones` receives the copy of each node.
  std::shared_ptr<Graph> copy(std::map<const Node *, Node *> &clones) const;
  // Nodes in topological order; empty if there is a cycle.
  std::vector<Node *> in_order() const;
};

struct ExecutableGraph {
  std::shared_ptr<Graph> graph;
  std::map<const Node *, Node *> clones;  // by the nodes of the original graph
  unsigned long long flags = 0;
  std::optional<Point> end;  // of the last launch
};

struct Capture {
  std::shared_ptr<Graph> graph;
  Stream *origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  u64 id = 0;
  std::map<Stream *, std::vector<Node *>> last;  // the nodes that the next one depends on
  std::vector<Stream *> streams;
  std::vector<Node *> left;  // the last nodes of streams that were destroyed
  ~Capture();
};

struct GraphRegistry {
  Handles<Graph> graphs;
  Handles<Node> nodes;
  Handles<ExecutableGraph> execs;
  std::map<Graph *, std::shared_ptr<Graph>> owned;
  std::mutex mutex;
};
GraphRegistry &graph_registry();

// The nodes behind handles. CUDA_ERROR_INVALID_VALUE: one is not of this graph.
CUresult nodes_in(const Graph &g, const CUgraphNode *handles, size_t n, std::vector<Node *> &out);
// The graph and its nodes are no handles any more.
void drop_graph(const Graph &g);
// Adds a node to a graph after checking the handles.
CUresult new_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n,
                  CUgraphNodeType type, Node *&node);
// The node behind a handle, if it has this type.
CUresult node_of(CUgraphNode handle, CUgraphNodeType type, Node *&out);
CUresult exec_node_of(CUgraphExec exec, CUgraphNode handle, CUgraphNodeType type, Node *&out);
// The records that the event nodes of a graph wait for, and, once it is submitted, make.
void take_events(Graph &g);
void publish_events(Graph &g, const Point &end);

// Adds a node that depends on the last nodes of a stream, and makes it the stream's last node.
Node *append(Capture &c, Stream &s, CUgraphNodeType type);

// Launches a graph in a stream, or adds it as one node to the graph that the stream records.
CUresult launch_graph(CUgraphExec exec, Stream &s);
// CUDA_ERROR_INVALID_VALUE if `exec` is no live executable graph.
CUresult check_exec(CUgraphExec exec);

// The node of `exec` that was cloned from `node` of the graph that `exec` was made from.
CUresult node_in(CUgraphExec exec, CUgraphNode node, Node *&out);
// Checks the parameters of a memset node.
CUresult fill_of(const CUDA_MEMSET_NODE_PARAMS *p, Fill &f);
// Writes up to *n handles to `out`, or only their number to *n if `out` is null.
CUresult list_nodes(const std::vector<Node *> &list, CUgraphNode *out, size_t *n);

}  // namespace ckpt::softcuda::driver
