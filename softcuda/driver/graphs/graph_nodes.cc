// SPDX-License-Identifier: Apache-2.0
//
// Nodes of any type by one call, and the parameters of nodes as the program gave them.
#include <algorithm>

#include "softcuda/driver/graphs/graph.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

namespace {

CUDA_KERNEL_NODE_PARAMS kernel_params(Node &n) {
  CUDA_KERNEL_NODE_PARAMS p{};
  const Launch &l = n.launch;
  p.func = reinterpret_cast<CUfunction>(const_cast<void *>(l.handle));
  p.gridDimX = l.grid.x;
  p.gridDimY = l.grid.y;
  p.gridDimZ = l.grid.z;
  p.blockDimX = l.block.x;
  p.blockDimY = l.block.y;
  p.blockDimZ = l.block.z;
  p.sharedMemBytes = l.shared;
  p.ctx = reinterpret_cast<CUcontext>(n.context);
  n.arguments.clear();
  for (const vm::Slot &s : l.function->kernel->entry().params)
    n.arguments.push_back(n.launch.params.data() + s.offset);
  p.kernelParams = n.arguments.data();
  return p;
}

CUDA_MEMSET_NODE_PARAMS memset_params(const Fill &f) {
  return {f.address, f.row, f.value, f.element, f.width, f.height};
}

// The older forms of the parameters are the beginning of the newer ones.
CUDA_KERNEL_NODE_PARAMS older(const CUDA_KERNEL_NODE_PARAMS_v3 &p) {
  return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
          p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    p.kern,      p.ctx};
}
CUDA_MEMSET_NODE_PARAMS older(const CUDA_MEMSET_NODE_PARAMS_v2 &p) {
  return {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
}
CUDA_HOST_NODE_PARAMS older(const CUDA_HOST_NODE_PARAMS_v2 &p) { return {p.fn, p.userData}; }

CUDA_BATCH_MEM_OP_NODE_PARAMS older(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 &p) {
  return {p.ctx, p.count, p.paramArray, p.flags};
}

// Calls what sets the parameters of an existing node, of a graph or of an executable one.
template <class Kernel, class Copy, class Fill, class Host, class RecordEvent, class WaitEvent,
          class Values>
CUresult set_any(CUgraphNodeParams *p, Kernel kernel, Copy copy, Fill fill, Host host,
                 RecordEvent record, WaitEvent wait, Values values) {
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return kernel(older(p->kernel));
    case CU_GRAPH_NODE_TYPE_MEMCPY: return copy(&p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET: return fill(older(p->memset));
    case CU_GRAPH_NODE_TYPE_HOST: return host(older(p->host));
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return record(p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return wait(p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return values(older(p->memOp));
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult add_allocation(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                        CUDA_MEM_ALLOC_NODE_PARAMS_v2 &p) {
  CUDA_MEM_ALLOC_NODE_PARAMS older{p.poolProps, p.accessDescs, p.accessDescCount, p.bytesize, 0};
  CUresult e = cuGraphAddMemAllocNode(out, g, after, n, &older);
  p.dptr = older.dptr;
  return e;
}

CUresult add_any(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                 CUgraphNodeParams &p) {
  if (p.type == CU_GRAPH_NODE_TYPE_EMPTY) return cuGraphAddEmptyNode(out, g, after, n);
  if (p.type == CU_GRAPH_NODE_TYPE_GRAPH)
    return cuGraphAddChildGraphNode(out, g, after, n, p.graph.graph);
  if (p.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
    return cuGraphAddMemFreeNode(out, g, after, n, p.free.dptr);
  if (p.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) return add_allocation(out, g, after, n, p.alloc);
  return set_any(
      &p, [&](CUDA_KERNEL_NODE_PARAMS k) { return cuGraphAddKernelNode(out, g, after, n, &k); },
      [&](const CUDA_MEMCPY3D *c) { return cuGraphAddMemcpyNode(out, g, after, n, c, nullptr); },
      [&](CUDA_MEMSET_NODE_PARAMS m) {
        return cuGraphAddMemsetNode(out, g, after, n, &m, nullptr);
      },
      [&](CUDA_HOST_NODE_PARAMS h) { return cuGraphAddHostNode(out, g, after, n, &h); },
      [&](CUevent e) { return cuGraphAddEventRecordNode(out, g, after, n, e); },
      [&](CUevent e) { return cuGraphAddEventWaitNode(out, g, after, n, e); },
      [&](CUDA_BATCH_MEM_OP_NODE_PARAMS v) {
        return cuGraphAddBatchMemOpNode(out, g, after, n, &v);
      });
}

}  // namespace

SOFTCUDA_API CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                        const CUgraphEdgeData *, size_t n, CUgraphNodeParams *p) {
  CALL_INITIALISED();
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  return add_any(out, graph, after, n, *p);
}

SOFTCUDA_API CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *p) {
  CALL_INITIALISED();
  return set_any(
      p, [&](CUDA_KERNEL_NODE_PARAMS k) { return cuGraphKernelNodeSetParams(node, &k); },
      [&](const CUDA_MEMCPY3D *c) { return cuGraphMemcpyNodeSetParams(node, c); },
      [&](CUDA_MEMSET_NODE_PARAMS m) { return cuGraphMemsetNodeSetParams(node, &m); },
      [&](CUDA_HOST_NODE_PARAMS h) { return cuGraphHostNodeSetParams(node, &h); },
      [&](CUevent e) { return cuGraphEventRecordNodeSetEvent(node, e); },
      [&](CUevent e) { return cuGraphEventWaitNodeSetEvent(node, e); },
      [&](CUDA_BATCH_MEM_OP_NODE_PARAMS v) { return cuGraphBatchMemOpNodeSetParams(node, &v); });
}

SOFTCUDA_API CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                               CUgraphNodeParams *p) {
  CALL_INITIALISED();
  if (p != nullptr && p->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return cuGraphExecChildGraphNodeSetParams(exec, node, p->graph.graph);
  return set_any(
      p, [&](CUDA_KERNEL_NODE_PARAMS k) { return cuGraphExecKernelNodeSetParams(exec, node, &k); },
      [&](const CUDA_MEMCPY3D *c) {
        return cuGraphExecMemcpyNodeSetParams(exec, node, c, nullptr);
      },
      [&](CUDA_MEMSET_NODE_PARAMS m) {
        return cuGraphExecMemsetNodeSetParams(exec, node, &m, nullptr);
      },
      [&](CUDA_HOST_NODE_PARAMS h) { return cuGraphExecHostNodeSetParams(exec, node, &h); },
      [&](CUevent e) { return cuGraphExecEventRecordNodeSetEvent(exec, node, e); },
      [&](CUevent e) { return cuGraphExecEventWaitNodeSetEvent(exec, node, e); },
      [&](CUDA_BATCH_MEM_OP_NODE_PARAMS v) {
        return cuGraphExecBatchMemOpNodeSetParams(exec, node, &v);
      });
}

SOFTCUDA_API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, CU_GRAPH_NODE_TYPE_KERNEL, n));
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  *p = kernel_params(*n);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, CU_GRAPH_NODE_TYPE_MEMCPY, n));
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  *p = n->box.described;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, CU_GRAPH_NODE_TYPE_MEMSET, n));
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  *p = memset_params(n->fill);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, CU_GRAPH_NODE_TYPE_HOST, n));
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  *p = {n->host, n->host_data};
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                                   const CUgraphNode *to, const CUgraphEdgeData *,
                                                   size_t n) {
  CALL_INITIALISED();
  REQUIRE(graph_registry().graphs.holds(graph), CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < n; ++i) {
    Node *a = graph_registry().nodes.get(from[i]), *b = graph_registry().nodes.get(to[i]);
    REQUIRE(a != nullptr && b != nullptr && std::erase(b->after, a) > 0, CUDA_ERROR_INVALID_VALUE);
  }
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags) {
  CALL_INITIALISED();
  const ExecutableGraph *e = graph_registry().execs.get(exec);
  REQUIRE(e != nullptr && flags != nullptr, CUDA_ERROR_INVALID_VALUE);
  *flags = e->flags;
  return CUDA_SUCCESS;
}

// The node owns the graph; its nodes can be changed like those of any other.
SOFTCUDA_API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, CU_GRAPH_NODE_TYPE_GRAPH, n));
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  for (const std::unique_ptr<Node> &m : n->child->nodes) graph_registry().nodes.add(m.get());
  *out = reinterpret_cast<CUgraph>(graph_registry().graphs.add(n->child.get()));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original,
                                             CUgraph clone) {
  CALL_INITIALISED();
  const Graph *g = graph_registry().graphs.get(clone);
  REQUIRE(out != nullptr && g != nullptr && graph_registry().nodes.holds(original),
          CUDA_ERROR_INVALID_VALUE);
  auto it = std::ranges::find_if(g->nodes, [&](const std::unique_ptr<Node> &m) {
    return m->original == reinterpret_cast<const Node *>(original);
  });
  REQUIRE(it != g->nodes.end(), CUDA_ERROR_INVALID_VALUE);
  *out = reinterpret_cast<CUgraphNode>(it->get());
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node,
                                            unsigned int enabled) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_in(exec, node, n));
  REQUIRE(n->type == CU_GRAPH_NODE_TYPE_KERNEL || n->type == CU_GRAPH_NODE_TYPE_MEMSET ||
              n->type == CU_GRAPH_NODE_TYPE_MEMCPY,
          CUDA_ERROR_INVALID_VALUE);
  n->enabled = enabled != 0;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node,
                                            unsigned int *enabled) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_in(exec, node, n));
  REQUIRE(enabled != nullptr, CUDA_ERROR_INVALID_VALUE);
  *enabled = n->enabled;
  return CUDA_SUCCESS;
}

#undef cuGraphInstantiate
// The forms of before CUDA 11.4.
SOFTCUDA_API CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error,
                                            char *log, size_t bytes) {
  if (error != nullptr) *error = nullptr;
  if (log != nullptr && bytes > 0) *log = '\0';
  return cuGraphInstantiateWithFlags(out, graph, 0);
}
SOFTCUDA_API CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *error,
                                         char *log, size_t bytes) {
  return cuGraphInstantiate_v2(out, graph, error, log, bytes);
}
