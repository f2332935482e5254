// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/graphs/live.h"

#include "remote/cuda/client/graphs/executable_graph.h"

namespace ckpt::remote::cuda {

Live &live() {
  static Live *const kLive = new Live;
  return *kLive;
}

Graph *Live::graph(CUgraph g) const {
  if (children_.contains(g)) return reinterpret_cast<Graph *>(g);
  auto found = graphs_.find(g);
  return found == graphs_.end() ? nullptr : found->second.get();
}

Node *Live::node(CUgraphNode n) const {
  return nodes_.contains(n) ? reinterpret_cast<Node *>(n) : nullptr;
}

ExecutableGraph *Live::exec(CUgraphExec e) const { return shared(e).get(); }

std::shared_ptr<ExecutableGraph> Live::shared(CUgraphExec e) const {
  auto found = execs_.find(e);
  return found == execs_.end() ? nullptr : found->second;
}

CUgraph Live::publish(std::shared_ptr<Graph> g) {
  for (const auto &[id, n] : g->nodes) nodes_.insert(n.get());
  CUgraph out = handle(g.get());
  graphs_.emplace(g.get(), std::move(g));
  return out;
}

CUgraph Live::publish_child(Node &owner) {
  for (const auto &[id, n] : owner.child->nodes) nodes_.insert(n.get());
  children_.insert(owner.child.get());
  return handle(owner.child.get());
}

CUgraphNode Live::publish(Node *n) {
  nodes_.insert(n);
  return handle(n);
}

CUgraphExec Live::publish(std::shared_ptr<ExecutableGraph> e) {
  auto out = reinterpret_cast<CUgraphExec>(e.get());
  execs_.emplace(e.get(), std::move(e));
  return out;
}

// The handles of its nodes, and of their child graphs, mean nothing any more.
void Live::forget(const Graph &g) {
  children_.erase(&g);
  for (const auto &[id, n] : g.nodes) {
    nodes_.erase(n.get());
    if (n->child) forget(*n->child);
  }
}

void Live::end(Graph *g) {
  forget(*g);
  auto found = graphs_.find(g);
  if (found == graphs_.end()) return;
  drop(std::move(found->second));
  graphs_.erase(found);
}

void Live::end(Node *n) {
  nodes_.erase(n);
  if (n->child) forget(*n->child);
  drop(n->child);
  drop(n->work);
  n->graph->remove(n);
}

void Live::end(CUgraphExec e) {
  auto found = execs_.find(e);
  drop(std::move(found->second));
  execs_.erase(found);
}

}  // namespace ckpt::remote::cuda
