// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/graphs/executable_graph.h"

#include <algorithm>

#include "remote/cuda/client/graphs/live.h"

namespace ckpt::remote::cuda {
namespace {

void append_graph(Plan &plan, const std::vector<Node *> &order);

void append_node(Plan &plan, const Node &n) {
  if (const auto *m = n.work ? std::get_if<std::shared_ptr<GraphMemory>>(n.work.get()) : nullptr) {
    plan.memory.allocated.push_back(*m);
  } else if (const auto *f = n.work ? std::get_if<FreeWork>(n.work.get()) : nullptr) {
    plan.memory.freed.push_back(f->address);
  } else if (n.child) {
    append_graph(plan, n.child->in_order().value());  // can_be_ordered()
  } else if (n.work && n.enabled) {
    plan.steps.push_back({n.type, n.work});
  }
}

void append_graph(Plan &plan, const std::vector<Node *> &order) {
  for (const Node *n : order) append_node(plan, *n);
}

void append_objects(Plan &plan, const Graph &g) {
  plan.objects.insert(plan.objects.end(), g.objects.begin(), g.objects.end());
  for (const auto &[id, n] : g.nodes)
    if (n->child) append_objects(plan, *n->child);
}

}  // namespace

bool can_be_ordered(const Graph &g) {
  auto has_order = [](const auto &n) {
    return !n.second->child || can_be_ordered(*n.second->child);
  };
  return g.in_order() && std::ranges::all_of(g.nodes, has_order);
}

ExecutableGraph::ExecutableGraph(const Graph &g, cuuint64_t flags)
    : graph(g.copy()), flags(flags), order_(graph->in_order().value()) {}

Node *ExecutableGraph::find(const Node &original) const {
  if (original.graph->id == graph->copied_from) return graph->find(original.id);
  auto found = updated.find(original.id);
  return found == updated.end() ? nullptr : found->second;
}

std::shared_ptr<const Plan> ExecutableGraph::plan() {
  if (plan_) return plan_;
  auto plan = std::make_shared<Plan>();
  append_graph(*plan, order_);
  append_objects(*plan, *graph);
  return plan_ = std::move(plan);
}

namespace {

// Pairs of nodes that stand for each other: the exit nodes in their order, and the dependencies of
// two paired nodes in their order (CUDA driver API, cuGraphExecUpdate). Each node leads to an exit
// node, so all are found.
class Pairing {
 public:
  CUgraphExecUpdateResultInfo find(const Graph &mine, const Graph &by) {
    if (mine.nodes.size() != by.nodes.size()) return changed(nullptr);
    std::vector<Node *> a = exits(mine), b = exits(by);
    if (a.size() != b.size()) return changed(b.empty() ? nullptr : b.front());
    for (size_t i = 0; i < a.size() && fine(); i++) pair(a[i], b[i], nullptr);
    for (size_t i = 0; i < found_.size() && fine(); i++) pair_dependencies(found_[i]);
    if (fine() && found_.size() != mine.nodes.size()) return changed(nullptr);
    return result_;
  }

  struct Pair {
    Node *mine, *by;
  };
  const std::vector<Pair> &found() const { return found_; }

 private:
  static std::vector<Node *> exits(const Graph &g) {
    std::vector<Node *> all;
    for (const auto &[id, n] : g.nodes)
      if (n->before.empty()) all.push_back(n.get());
    return all;
  }
  bool fine() const { return result_.result == CU_GRAPH_EXEC_UPDATE_SUCCESS; }
  CUgraphExecUpdateResultInfo changed(
      const Node *at, const Node *from = nullptr,
      CUgraphExecUpdateResult why = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED) {
    return result_ = {why, handle(at), handle(from)};
  }
  // `to`: the node that depends on `by`, if any does.
  void pair(Node *mine, Node *by, const Node *to) {
    auto [at, fresh] = partners_.try_emplace(mine, by);
    if (!fresh) {
      if (at->second != by) changed(to, by);
      return;
    }
    if (mine->type != by->type)
      changed(by, nullptr, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    else if (mine->after.size() != by->after.size())
      changed(by);
    found_.push_back({mine, by});
  }
  void pair_dependencies(Pair p) {
    for (size_t i = 0; i < p.mine->after.size() && fine(); i++) {
      const Edge &a = p.mine->after[i], &b = p.by->after[i];
      if (std::memcmp(&a.data, &b.data, sizeof a.data) != 0)
        changed(p.by, b.from);
      else
        pair(a.from, b.from, p.by);
    }
  }

  CUgraphExecUpdateResultInfo result_{};
  std::unordered_map<const Node *, const Node *> partners_;
  std::vector<Pair> found_;
};

// The owning context of a kernel cannot change, nor whether it is launched cooperatively.
CUgraphExecUpdateResult check_update(const Node &mine, const Node &by) {
  const auto *a = mine.work ? std::get_if<KernelWork>(mine.work.get()) : nullptr;
  const auto *b = by.work ? std::get_if<KernelWork>(by.work.get()) : nullptr;
  if (a && b && a->context != b->context)
    return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

// The pairs of both graphs and of their child graphs.
CUgraphExecUpdateResultInfo find_pairs(const Graph &mine, const Graph &by,
                                       std::vector<Pairing::Pair> &all) {
  Pairing pairing;
  CUgraphExecUpdateResultInfo info = pairing.find(mine, by);
  if (info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return info;
  for (const Pairing::Pair &p : pairing.found()) {
    info.result = check_update(*p.mine, *p.by);
    if (info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return {info.result, handle(p.by), nullptr};
    if (p.mine->child) info = find_pairs(*p.mine->child, *p.by->child, all);
    if (info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return info;
    all.push_back(p);
  }
  return info;
}

}  // namespace

CUgraphExecUpdateResultInfo update_nodes(const Graph &mine, const Graph &by,
                                         std::unordered_map<u64, Node *> &updated) {
  std::vector<Pairing::Pair> all;
  CUgraphExecUpdateResultInfo info = find_pairs(mine, by, all);
  if (info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return info;
  updated.clear();
  for (const Pairing::Pair &p : all) {
    live().drop(std::exchange(p.mine->work, p.by->work));
    if (p.mine->graph == &mine) updated[p.by->id] = p.mine;
  }
  return info;
}

}  // namespace ckpt::remote::cuda
