// SPDX-License-Identifier: Apache-2.0
//
// A graph that can be launched: a copy of one, with an order of its nodes.
#pragma once

#include <span>
#include <unordered_map>

#include "remote/cuda/client/graphs/graph.h"
#include "remote/cuda/client/graphs/graph_memory.h"

namespace ckpt::remote::cuda {

// What one launch does. It is not changed, so that it is valid while the program changes the graph.
struct Plan {
  struct Step {
    CUgraphNodeType type;
    WorkPointer work;
  };
  std::vector<Step> steps;
  MemoryUse memory;
  std::vector<std::shared_ptr<UserObject>> objects;
};

// Whether the graph and its child graphs have no cycle.
bool can_be_ordered(const Graph &g);

struct ExecutableGraph {
  ExecutableGraph(const Graph &g, cuuint64_t flags);  // can_be_ordered()
  ~ExecutableGraph();
  ExecutableGraph(const ExecutableGraph &) = delete;
  ExecutableGraph &operator=(const ExecutableGraph &) = delete;

  // The node that stands for a node of the graph that this one was made from, or was updated by.
  Node *find(const Node &original) const;
  // As is, after all changes.
  std::shared_ptr<const Plan> plan();
  // Its nodes have changed.
  void changed() { plan_.reset(); }

  const std::shared_ptr<Graph> graph;
  const cuuint64_t flags;
  std::unordered_map<u64, Node *> updated;  // by the id of the node that has updated it

  // The end of the last launch. Only for launches, which the program makes one at a time
  // (CUDA driver API, "Graph object thread safety").
  CUevent ended = nullptr;
  u64 ended_context = 0, last_stream = 0;

 private:
  const std::vector<Node *> order_;
  std::shared_ptr<const Plan> plan_;
};

// Sends the work in the order of the plan.
CUresult launch_plan(ExecutableGraph &e, const Plan &plan, CUstream stream);

// Gives the nodes of `mine` the work of the nodes of `by`, if both have the same nodes and edges.
// The lock of live() is held.
CUgraphExecUpdateResultInfo update_nodes(const Graph &mine, const Graph &by,
                                         std::unordered_map<u64, Node *> &updated);

}  // namespace ckpt::remote::cuda
