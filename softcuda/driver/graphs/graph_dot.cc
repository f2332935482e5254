// SPDX-License-Identifier: Apache-2.0
//
// cuGraphDebugDotPrint: a graph as text for Graphviz.
#include <fstream>

#include "softcuda/driver/graphs/graph.h"

namespace ckpt::softcuda::driver {
namespace {

std::string label_of(const Node &n) {
  switch (n.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return fmt::format("KERNEL\\n{}", n.launch.function->symbol->function->name);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return fmt::format("MEMCPY\\n{} bytes", n.box.width * n.box.height * n.box.depth);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return fmt::format("MEMSET\\n{} bytes", n.fill.width * n.fill.height * n.fill.element);
    case CU_GRAPH_NODE_TYPE_HOST: return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH: return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return "EVENT_WAIT";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return "MEM_FREE";
    default: return "EMPTY";
  }
}

std::string name_of(const std::string &graph, const Node &n) {
  size_t i = 0;
  while (n.graph->nodes[i].get() != &n) ++i;
  return fmt::format("{}_node_{}", graph, i);
}

// A child graph is a cluster behind its node.
void print(std::ostream &out, const Graph &g, const std::string &name) {
  out << "subgraph cluster_" << name << " {\nlabel=\"" << name << "\"\n";
  for (const std::unique_ptr<Node> &n : g.nodes) {
    std::string id = name_of(name, *n);
    out << '"' << id << "\" [label=\"" << label_of(*n) << "\"]\n";
    for (const Node *before : n->after)
      out << '"' << name_of(name, *before) << "\" -> \"" << id << "\"\n";
    if (n->child) print(out, *n->child, id);
  }
  out << "}\n";
}

}  // namespace
}  // namespace ckpt::softcuda::driver

using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int) {
  CALL_INITIALISED();
  const Graph *g = graph_registry().graphs.get(graph);
  REQUIRE(g != nullptr && path != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::ofstream out(path);
  out << "digraph dot {\n";
  print(out, *g, "graph_1");
  out << "}\n";
  return out.flush() ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
