// SPDX-License-Identifier: Apache-2.0
//
// cuGraphDebugDotPrint: a graph as text for Graphviz.
#include <fmt/format.h>

#include <fstream>

#include "remote/cuda/client/graphs/live.h"

namespace ckpt::remote::cuda {
namespace {

struct Label {
  std::string operator()(const KernelWork &k) const { return fmt::format("KERNEL\\n{}", name(k)); }
  std::string operator()(const CUDA_MEMCPY3D_v2 &c) const {
    return fmt::format("MEMCPY\\n{} bytes", c.WidthInBytes * c.Height * c.Depth);
  }
  std::string operator()(const CUDA_MEMSET_NODE_PARAMS_v1 &f) const {
    return fmt::format("MEMSET\\n{} bytes", f.width * f.height * f.elementSize);
  }
  std::string operator()(const CUDA_HOST_NODE_PARAMS_v1 &) const { return "HOST"; }
  std::string operator()(const EventWork &) const { return "EVENT"; }
  std::string operator()(const std::shared_ptr<GraphMemory> &) const { return "MEM_ALLOC"; }
  std::string operator()(const FreeWork &) const { return "MEM_FREE"; }
  std::string operator()(const std::monostate &) const { return "EMPTY"; }

  static std::string name(const KernelWork &k) {
    const char *name = nullptr;
    if (kind_of(number_of(k.function)) == Kind::Kernel)
      (void)entry_cuKernelGetName(&name, reinterpret_cast<CUkernel>(k.function));
    else
      (void)entry_cuFuncGetName(&name, k.function);
    return name ? name : "?";
  }
};

std::string label(const Node &n) {
  if (n.child) return "GRAPH";
  return n.work ? std::visit(Label{}, *n.work) : "EMPTY";
}

// A child graph is a cluster behind its node.
void print(std::ostream &out, const Graph &g, const std::string &name) {
  out << "subgraph cluster_" << name << " {\nlabel=\"" << name << "\"\n";
  std::unordered_map<const Node *, std::string> names;
  for (const auto &[id, n] : g.nodes)
    names[n.get()] = fmt::format("{}_node_{}", name, names.size());
  for (const auto &[id, n] : g.nodes) {
    const std::string &to = names[n.get()];
    out << '"' << to << "\" [label=\"" << label(*n) << "\"]\n";
    for (const Edge &e : n->after) out << '"' << names[e.from] << "\" -> \"" << to << "\"\n";
    if (n->child) print(out, *n->child, to);
  }
  out << "}\n";
}

}  // namespace

CUresult entry_cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned) {
  std::shared_ptr<Graph> copy;  // names are asked for without the lock
  CUresult e = with_graphs([&](Live &all) {
    const Graph *g = all.graph(graph);
    if (!g || !path) return CUDA_ERROR_INVALID_VALUE;
    copy = g->copy();
    return CUDA_SUCCESS;
  });
  if (e != CUDA_SUCCESS) return e;
  std::ofstream out(path);
  out << "digraph dot {\n";
  print(out, *copy, "graph_1");
  out << "}\n";
  return out.flush() ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // namespace ckpt::remote::cuda
