// SPDX-License-Identifier: Apache-2.0
//
// A graph of work: nodes, the edges between them, and an order in which the nodes can be executed.
// Nothing in here calls a device.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "remote/cuda/handles.h"

namespace ckpt::remote::cuda {

struct Graph;
struct GraphMemory;
struct Node;
struct UserObject;

// What a node does. An object of this type is not changed once a node has it, so that the copies of
// a graph share it.
struct KernelWork {
  CUfunction function = nullptr;
  CUkernel kernel = nullptr;  // if the program has given this in place of a function
  unsigned grid[3] = {}, block[3] = {}, shared = 0;
  u64 context = 0;
  std::vector<CUlaunchAttribute> attributes;
  Bytes parameters;
  std::vector<void *> places;  // of the single parameters in `parameters`
};
struct EventWork {
  CUevent event = nullptr;
};
struct FreeWork {
  CUdeviceptr address = 0;
};
using Work =
    std::variant<std::monostate, KernelWork, CUDA_MEMCPY3D_v2, CUDA_MEMSET_NODE_PARAMS_v1,
                 CUDA_HOST_NODE_PARAMS_v1, EventWork, std::shared_ptr<GraphMemory>, FreeWork>;
using WorkPointer = std::shared_ptr<const Work>;

// The node's dependency on another one.
struct Edge {
  Node *from = nullptr;
  CUgraphEdgeData data{};
};

struct Node {
  Graph *graph = nullptr;
  u64 id = 0;  // in the order of creation; no two nodes have the same, except for copies of a graph
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  WorkPointer work;
  std::shared_ptr<Graph> child;
  bool enabled = true;         // of an executable graph
  std::vector<Edge> after;     // in the order in which the program has named them
  std::vector<Node *> before;  // the nodes that depend on this one
};

struct Graph : std::enable_shared_from_this<Graph> {
  Graph();
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  Node *add(CUgraphNodeType type, WorkPointer work, std::shared_ptr<Graph> child = nullptr);
  Node *find(u64 id) const;
  // False: there is such an edge already, or it would lead from a node to itself.
  static bool connect(Node *from, Node *to, CUgraphEdgeData data = {});
  // False: there is no such edge.
  static bool disconnect(Node *from, Node *to);
  void remove(Node *node);
  // A graph with the same nodes, under the same ids, and with copies of the child graphs.
  std::shared_ptr<Graph> copy() const;
  // Each node behind those that it depends on, otherwise in the order of creation. No value: there
  // is a cycle.
  std::optional<std::vector<Node *>> in_order() const;

  u64 id = 0;
  u64 copied_from = 0;  // the id of a graph
  std::map<u64, std::unique_ptr<Node>> nodes;
  std::vector<std::shared_ptr<UserObject>> objects;  // one for each reference
  bool of_node = false;                              // a node owns it
  bool capturing = false;                            // a stream records into it
};

}  // namespace ckpt::remote::cuda
