// SPDX-License-Identifier: Apache-2.0
//
// The graphs, nodes and executable graphs that live. A handle is the address of one of these, and
// is looked up before it is followed. One lock guards them and all that they contain; no call for a
// device is made under it.
#pragma once

#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "remote/cuda/client/graphs/graph.h"
#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

struct ExecutableGraph;

class Live {
 public:
  // nullptr: it is no handle.
  Graph *graph(CUgraph g) const;
  Node *node(CUgraphNode n) const;
  ExecutableGraph *exec(CUgraphExec e) const;
  std::shared_ptr<ExecutableGraph> shared(CUgraphExec e) const;

  // The program may name the graph and its nodes from now on.
  CUgraph publish(std::shared_ptr<Graph> g);
  // The child graph of a node, which owns it.
  CUgraph publish_child(Node &owner);
  CUgraphNode publish(Node *n);
  CUgraphExec publish(std::shared_ptr<ExecutableGraph> e);
  // These have ended.
  void end(Graph *g);
  void end(Node *n);
  void end(CUgraphExec e);
  // Freed when the lock is no longer held, since what it frees may call the device or the program.
  void drop(std::shared_ptr<const void> object) { dropped_.push_back(std::move(object)); }

 private:
  template <class F>
  friend CUresult with_graphs(F f);

  void forget(const Graph &g);

  std::mutex mutex_;
  std::unordered_map<const void *, std::shared_ptr<Graph>> graphs_;
  std::unordered_set<const void *> children_;
  std::unordered_set<const void *> nodes_;
  std::unordered_map<const void *, std::shared_ptr<ExecutableGraph>> execs_;
  std::vector<std::shared_ptr<const void>> dropped_;
};

// Never destroyed: the CUDA runtime calls the driver after main() has returned.
Live &live();

// f(Live &), under the lock.
template <class F>
CUresult with_graphs(F f) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  std::vector<std::shared_ptr<const void>> dropped;  // freed behind the lock
  std::lock_guard lock(live().mutex_);
  CUresult e = f(live());
  dropped.swap(live().dropped_);
  return e;
}

inline CUgraph handle(const Graph *g) { return reinterpret_cast<CUgraph>(const_cast<Graph *>(g)); }
inline CUgraphNode handle(const Node *n) {
  return reinterpret_cast<CUgraphNode>(const_cast<Node *>(n));
}

}  // namespace ckpt::remote::cuda
