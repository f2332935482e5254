// SPDX-License-Identifier: Apache-2.0
//
// Graphs of a program on CUDA devices of other nodes: edges, orders and copies.
#include "remote/cuda/client/graphs/graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace ckpt;
using namespace ckpt::remote::cuda;

namespace {

Node *add(Graph &g) { return g.add(CU_GRAPH_NODE_TYPE_EMPTY, nullptr); }

std::vector<Node *> add(Graph &g, size_t n) {
  std::vector<Node *> all;
  for (size_t i = 0; i < n; i++) all.push_back(add(g));
  return all;
}

bool allows(const Graph &g, const std::vector<Node *> &order) {
  auto place = [&](const Node *n) { return std::ranges::find(order, n) - order.begin(); };
  for (const auto &[id, n] : g.nodes)
    for (const Edge &e : n->after)
      if (place(e.from) >= place(n.get())) return false;
  return order.size() == g.nodes.size();
}

}  // namespace

TEST_CASE("nodes are executed in the order of creation where the edges allow it") {
  Graph g;
  std::vector<Node *> n = add(g, 5);
  Graph::connect(n[0], n[3]);
  Graph::connect(n[1], n[3]);
  CHECK(g.in_order() == n);
  Graph::connect(n[4], n[0]);
  CHECK(g.in_order() == std::vector<Node *>{n[4], n[0], n[1], n[2], n[3]});
}

TEST_CASE("a graph with a cycle has no order, and one without nodes has one") {
  Graph g;
  CHECK(g.in_order()->empty());
  std::vector<Node *> n = add(g, 3);
  Graph::connect(n[0], n[1]);
  Graph::connect(n[1], n[2]);
  CHECK(g.in_order());
  Graph::connect(n[2], n[0]);
  CHECK_FALSE(g.in_order());
  CHECK(Graph::disconnect(n[1], n[2]));
  CHECK(g.in_order());
}

TEST_CASE("an edge exists once, and not from a node to itself") {
  Graph g;
  std::vector<Node *> n = add(g, 2);
  CHECK(Graph::connect(n[0], n[1]));
  CHECK_FALSE(Graph::connect(n[0], n[1]));
  CHECK_FALSE(Graph::connect(n[0], n[0]));
  CHECK(Graph::connect(n[1], n[0]));
  CHECK(Graph::disconnect(n[0], n[1]));
  CHECK_FALSE(Graph::disconnect(n[0], n[1]));
}

TEST_CASE("with a node its edges end") {
  Graph g;
  std::vector<Node *> n = add(g, 3);
  Graph::connect(n[0], n[1]);
  Graph::connect(n[1], n[2]);
  g.remove(n[1]);
  CHECK(n[0]->before.empty());
  CHECK(n[2]->after.empty());
  CHECK(g.nodes.size() == 2);
}

TEST_CASE("a copy has the same nodes and edges, and is independent") {
  Graph g;
  auto child = std::make_shared<Graph>();
  add(*child);
  std::vector<Node *> n = add(g, 2);
  Node *parent = g.add(CU_GRAPH_NODE_TYPE_GRAPH, nullptr, child);
  Graph::connect(n[1], n[0]);
  std::shared_ptr<Graph> copy = g.copy();
  Node *a = copy->find(n[0]->id), *b = copy->find(n[1]->id), *p = copy->find(parent->id);
  CHECK(copy->copied_from == g.id);
  REQUIRE(a->after.size() == 1);
  CHECK(a->after[0].from == b);
  CHECK(b->before == std::vector<Node *>{a});
  CHECK(a->graph == copy.get());
  CHECK(p->child != child);
  CHECK(p->child->nodes.size() == 1);
  copy->remove(b);
  CHECK(n[0]->after.size() == 1);
  CHECK(copy->find(add(g)->id) == nullptr);
}

TEST_CASE("random graphs: every order is one that the edges allow") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; round++) {
    Graph g;
    std::vector<Node *> n = add(g, 2 + random() % 30);
    std::vector<Node *> hidden = n;
    std::ranges::shuffle(hidden, random);
    for (size_t i = 0; i < 3 * n.size(); i++) {
      size_t a = random() % n.size(), b = random() % n.size();
      if (a != b) Graph::connect(hidden[std::min(a, b)], hidden[std::max(a, b)]);
    }
    REQUIRE(g.in_order());
    CHECK(allows(g, *g.in_order()));
  }
}

// Quadratic work would need minutes. The chain is made in the reverse of its order.
TEST_CASE("large graphs: a long chain, and a node with many dependencies") {
  Graph g;
  std::vector<Node *> n = add(g, 100000);
  for (size_t i = 0; i + 1 < n.size(); i++) Graph::connect(n[i + 1], n[i]);
  Node *last = add(g);
  for (Node *m : n) Graph::connect(m, last);
  std::shared_ptr<Graph> copy = g.copy();
  auto order = copy->in_order();
  REQUIRE(order);
  CHECK(order->front()->id == n.back()->id);
  CHECK(order->back()->id == last->id);
}
