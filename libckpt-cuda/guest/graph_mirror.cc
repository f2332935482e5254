// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/guest/graph_mirror.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "common/base/log.h"

namespace ckpt::cuda::guest {
namespace {

// What a graph and its child graphs contain.
struct Survey {
  const char *obstacle = nullptr;  // why its nodes cannot be launched one by one
  bool sliceable = false;          // there is a kernel that can be cut
};

const char *obstacle_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return nullptr;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return "it allocates or frees memory";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return "it has conditional nodes";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: return "it has nodes for semaphores";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return "it has nodes for single values in memory";
    default: return "it has nodes of a kind that ckpt does not know";
  }
}

void note_kernel_node(CUgraphNode node, Survey &out) {
  std::optional<KernelNode> k = kernel_node(node);
  if (!k) return void(out.obstacle = "the driver does not say what it launches");
  if (k->device_updatable) out.obstacle = "kernels may change it";
  Kernel *kernel = kernel_of(k->function());
  if (kernel == nullptr) return;
  out.sliceable |= !kernel->runs_whole();
  if (!kernel->facts.whole.empty()) name_whole(*kernel, kernel->facts.whole);
}

void survey(CUgraph graph, Survey &out) {
  std::optional<std::vector<CUgraphNode>> nodes = nodes_of(graph);
  if (!nodes) return void(out.obstacle = "the driver does not list its nodes");
  for (CUgraphNode node : *nodes) {
    std::optional<CUgraphNodeType> type = type_of(node);
    const char *obstacle = type ? obstacle_of(*type) : "the driver does not list its nodes";
    if (obstacle != nullptr) out.obstacle = obstacle;
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) note_kernel_node(node, out);
    if (type != CU_GRAPH_NODE_TYPE_GRAPH) continue;
    if (std::optional<CUgraph> child = child_of(node))
      survey(*child, out);
    else
      out.obstacle = "the driver does not list its nodes";
  }
}

}  // namespace

void name_whole_graph(std::string_view why) {
  static auto *const kNamed = new std::set<std::string, std::less<>>;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (kNamed->emplace(why).second) log::warn("a graph runs whole, not in slices: {}", why);
}

std::unique_ptr<GraphMirror> GraphMirror::make(CUgraph graph) {
  Survey found;
  if (has_graph_calls())
    survey(graph, found);
  else
    name_whole_graph("the driver is older than CUDA 12.3");
  if (!found.sliceable) return nullptr;
  std::unique_ptr<GraphMirror> mirror;
  if (found.obstacle == nullptr) {
    mirror = copy(graph);
    if (!mirror) found.obstacle = "the driver cannot copy it";
  }
  if (found.obstacle != nullptr) name_whole_graph(found.obstacle);
  return mirror;
}

GraphMirror::~GraphMirror() {
  if (graph_ != nullptr) graph_calls().cuGraphDestroy(graph_);
}

std::unique_ptr<GraphMirror> GraphMirror::copy(CUgraph graph) {
  std::unique_ptr<GraphMirror> mirror(new GraphMirror);
  if (graph_calls().cuGraphClone(&mirror->graph_, graph) != CUDA_SUCCESS) return nullptr;
  return mirror->copy_children(graph) ? std::move(mirror) : nullptr;
}

// Each child graph is copied by itself, because cuGraphNodeFindInClone() is documented only for the
// nodes of the graph that was cloned, not for those of its child graphs.
bool GraphMirror::copy_children(CUgraph graph) {
  std::optional<std::vector<CUgraphNode>> nodes = nodes_of(graph);
  if (!nodes) return false;
  for (CUgraphNode node : *nodes) {
    if (type_of(node) != CU_GRAPH_NODE_TYPE_GRAPH) continue;
    CUgraphNode mine = nullptr;
    std::optional<CUgraph> child = child_of(node);
    if (!child || graph_calls().cuGraphNodeFindInClone(&mine, node, graph_) != CUDA_SUCCESS)
      return false;
    if (!(children_[mine] = copy(*child))) return false;
  }
  return true;
}

GraphMirror::Place GraphMirror::find(CUgraphNode original) {
  CUgraphNode mine = nullptr;
  if (graph_calls().cuGraphNodeFindInClone(&mine, original, graph_) == CUDA_SUCCESS)
    return {this, mine};
  for (auto &[node, child] : children_)
    if (Place p = child->find(original); p.graph != nullptr) return p;
  return {};
}

bool GraphMirror::change(CUgraphNode original, const std::function<CUresult(CUgraphNode)> &set) {
  Place p = find(original);
  return p.graph != nullptr && set(p.node) == CUDA_SUCCESS;
}

bool GraphMirror::set_enabled(CUgraphNode original, bool enabled) {
  Place p = find(original);
  if (p.graph == nullptr) return false;
  if (enabled)
    p.graph->disabled_.erase(p.node);
  else
    p.graph->disabled_.insert(p.node);
  return true;
}

bool GraphMirror::set_child(CUgraphNode original, CUgraph child) {
  Place p = find(original);
  Survey found;
  survey(child, found);
  if (p.graph == nullptr || found.obstacle != nullptr) return false;
  std::unique_ptr<GraphMirror> mirror = copy(child);
  if (!mirror) return false;
  p.graph->children_[p.node] = std::move(mirror);
  return true;
}

bool GraphMirror::all_enabled() const {
  return disabled_.empty() &&
         std::ranges::all_of(children_, [](const auto &c) { return c.second->all_enabled(); });
}

}  // namespace ckpt::cuda::guest
