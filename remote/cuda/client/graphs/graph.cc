// SPDX-License-Identifier: Apache-2.0
//
// CUDA graphs of a program on a device of another node.
//
// A program describes a graph once, node by node or by recording a stream, and launches it many
// times. The driver gains two things by it: a launch of many kernels is one call, and branches of
// the graph can run side by side. A forwarding library could make each graph on the other node as
// well. But then each of about ninety entries would travel, with parameters of kernels in the
// program's memory; each graph would have to be made again wherever the program moves to; and host
// functions and copies from and to the program's memory cannot be part of a graph of another
// process at all.
//
// So graphs stay here. A graph, an executable graph and a recording are plain objects in the
// program's memory, which checkpoints hold like any other memory, and the handles in their nodes
// are numbers that mean the same on every server. A launch sends the work of the nodes, one after
// the other, into the program's stream, with the calls that do the same outside of a graph. One
// after the other is an order that the edges allow.
//
// Example: the graph copy -> kernel a -> kernel c, copy -> kernel b -> kernel c is launched as
//
//     Write, Launch a, Launch b, Launch c, and an event's record
//
// which all go one way, in one batch, so the launch does not wait.
//
// Cost: a launch needs time for each node and edge, about as much as the same calls one by one. The
// order is found once for an executable graph, in time linear in nodes and edges.
//
// What is lost: kernel a and kernel b do not run side by side, and the device's driver gets single
// launches. A copy to the program's memory makes cuGraphLaunch wait for it, as it does outside of a
// graph.
#include "remote/cuda/client/graphs/graph.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "common/base/topological_order.h"

namespace ckpt::remote::cuda {
namespace {

u64 new_id() {
  static std::atomic<u64> last{0};
  return ++last;
}

// Where the edge is; the end: nowhere. Looks at the end that has fewer edges, because programs have
// nodes with very many.
std::vector<Edge>::iterator edge_between(Node *from, Node *to) {
  if (from->before.size() < to->after.size() &&
      std::ranges::find(from->before, to) == from->before.end())
    return to->after.end();
  return std::ranges::find(to->after, from, &Edge::from);
}

}  // namespace

Graph::Graph() : id(new_id()) {}

Node *Graph::add(CUgraphNodeType type, WorkPointer work, std::shared_ptr<Graph> child) {
  auto node = std::make_unique<Node>();
  node->graph = this;
  node->id = new_id();
  node->type = type;
  node->work = std::move(work);
  node->child = std::move(child);
  if (node->child) node->child->of_node = true;
  return nodes.emplace(node->id, std::move(node)).first->second.get();
}

Node *Graph::find(u64 id) const {
  auto found = nodes.find(id);
  return found == nodes.end() ? nullptr : found->second.get();
}

bool Graph::connect(Node *from, Node *to, CUgraphEdgeData data) {
  if (from == to || edge_between(from, to) != to->after.end()) return false;
  to->after.push_back({from, data});
  from->before.push_back(to);
  return true;
}

bool Graph::disconnect(Node *from, Node *to) {
  auto edge = edge_between(from, to);
  if (edge == to->after.end()) return false;
  to->after.erase(edge);
  std::erase(from->before, to);
  return true;
}

void Graph::remove(Node *node) {
  for (const Edge &e : node->after) std::erase(e.from->before, node);
  for (Node *n : node->before)
    std::erase_if(n->after, [&](const Edge &e) { return e.from == node; });
  nodes.erase(node->id);
}

std::shared_ptr<Graph> Graph::copy() const {
  auto g = std::make_shared<Graph>();
  g->copied_from = id;
  g->objects = objects;
  for (const auto &[node_id, n] : nodes) {
    Node &m = *(g->nodes[node_id] = std::make_unique<Node>(*n));
    m.graph = g.get();
    if (!n->child) continue;
    m.child = n->child->copy();
    m.child->of_node = true;
  }
  for (const auto &[node_id, m] : g->nodes) {
    for (Edge &e : m->after) e.from = g->find(e.from->id);
    for (Node *&n : m->before) n = g->find(n->id);
  }
  return g;
}

std::optional<std::vector<Node *>> Graph::in_order() const {
  std::unordered_map<const Node *, u32> numbers;
  std::vector<Node *> all;
  for (const auto &[node_id, n] : nodes) {
    numbers[n.get()] = static_cast<u32>(all.size());
    all.push_back(n.get());
  }
  std::vector<std::vector<u32>> after(all.size());
  for (size_t i = 0; i < all.size(); i++)
    for (const Edge &e : all[i]->after) after[i].push_back(numbers[e.from]);
  std::optional<std::vector<u32>> order = topological_order(after);
  if (!order) return std::nullopt;
  std::vector<Node *> sorted;
  for (u32 i : *order) sorted.push_back(all[i]);
  return sorted;
}

}  // namespace ckpt::remote::cuda
