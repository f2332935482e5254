// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/guest/graph_plan.h"

#include <algorithm>

#include "common/base/log.h"
#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/guest/launches.h"

namespace ckpt::cuda::guest {
namespace {

// The driver does not know the address: it is ordinary memory of the process.
bool is_pageable(const void *host) {
  unsigned type = 0;
  auto address = reinterpret_cast<CUdeviceptr>(host);
  return graph_calls().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
             CUDA_SUCCESS ||
         type == 0;
}

bool is_pageable(CUmemorytype type, const void *host, CUdeviceptr unified) {
  if (type == CU_MEMORYTYPE_HOST) return is_pageable(host);
  return type == CU_MEMORYTYPE_UNIFIED && is_pageable(reinterpret_cast<const void *>(unified));
}

bool touches_pageable_memory(const CUDA_MEMCPY3D_v2 &c) {
  return is_pageable(c.srcMemoryType, c.srcHost, c.srcDevice) ||
         is_pageable(c.dstMemoryType, c.dstHost, c.dstDevice);
}

// Null: the driver refuses it.
using OneNode = std::shared_ptr<CUgraphExec_st>;
OneNode graph_of_one_copy(const CUDA_MEMCPY3D_v2 &c) {
  const GraphCalls &calls = graph_calls();
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUcontext context = nullptr;
  if (calls.cuGraphCreate(&graph, 0) != CUDA_SUCCESS) return nullptr;
  if (driver().cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
      calls.cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &c, context) != CUDA_SUCCESS ||
      calls.cuGraphInstantiateWithFlags(&exec, graph, 0) != CUDA_SUCCESS)
    exec = nullptr;
  calls.cuGraphDestroy(graph);
  if (exec == nullptr) return nullptr;
  return {exec, [](CUgraphExec e) { graph_calls().cuGraphExecDestroy(e); }};
}

CUresult fill_row(const CUDA_MEMSET_NODE_PARAMS_v1 &f, CUstream stream) {
  const GraphCalls &calls = graph_calls();
  switch (f.elementSize) {
    case 1:
      return calls.cuMemsetD8Async(f.dst, static_cast<unsigned char>(f.value), f.width, stream);
    case 2:
      return calls.cuMemsetD16Async(f.dst, static_cast<unsigned short>(f.value), f.width, stream);
    default: return calls.cuMemsetD32Async(f.dst, f.value, f.width, stream);
  }
}

CUresult fill(const CUDA_MEMSET_NODE_PARAMS_v1 &f, CUstream stream) {
  if (f.height <= 1) return fill_row(f, stream);
  const GraphCalls &calls = graph_calls();
  switch (f.elementSize) {
    case 1:
      return calls.cuMemsetD2D8Async(f.dst, f.pitch, static_cast<unsigned char>(f.value), f.width,
                                     f.height, stream);
    case 2:
      return calls.cuMemsetD2D16Async(f.dst, f.pitch, static_cast<unsigned short>(f.value), f.width,
                                      f.height, stream);
    default: return calls.cuMemsetD2D32Async(f.dst, f.pitch, f.value, f.width, f.height, stream);
  }
}

}  // namespace

std::shared_ptr<const GraphPlan> GraphPlan::of(const GraphMirror &mirror) {
  auto plan = std::make_shared<GraphPlan>();
  return plan->append(mirror) ? plan : nullptr;
}

bool GraphPlan::belongs_to(CUcontext context) const {
  return std::ranges::all_of(contexts_, [&](CUcontext c) { return c == context; });
}

CUresult GraphPlan::launch(CUstream stream) const {
  log::debug("graph: {} nodes one by one", steps_.size());
  for (const Step &step : steps_) {
    if (gate().closing()) gate().pause();
    if (CUresult e = step(stream); e != CUDA_SUCCESS) return e;
  }
  return CUDA_SUCCESS;
}

bool GraphPlan::append(const GraphMirror &mirror) {
  std::optional<std::vector<CUgraphNode>> nodes = nodes_in_order(mirror.graph());
  return nodes && std::ranges::all_of(*nodes, [&](CUgraphNode node) {
           return !mirror.enabled(node) || append(mirror, node);
         });
}

bool GraphPlan::append(const GraphMirror &mirror, CUgraphNode node) {
  std::optional<CUgraphNodeType> type = type_of(node);
  if (!type) return false;
  switch (*type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return append_kernel(node);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return append_copy(node);
    case CU_GRAPH_NODE_TYPE_MEMSET: return append_fill(node);
    case CU_GRAPH_NODE_TYPE_HOST: return append_host_function(node);
    case CU_GRAPH_NODE_TYPE_GRAPH: return append(mirror.child(node));
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return append_event(node, true);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return append_event(node, false);
    default: return *type == CU_GRAPH_NODE_TYPE_EMPTY;
  }
}

bool GraphPlan::append_kernel(CUgraphNode node) {
  std::optional<KernelNode> k = kernel_node(node);
  if (!k) return false;
  CUcontext context = k->params.ctx != nullptr ? k->params.ctx : context_of(k->params.func);
  if (context != nullptr) contexts_.insert(context);
  steps_.emplace_back([k = *k](CUstream stream) {
    const CUDA_KERNEL_NODE_PARAMS_v2 &p = k.params;
    auto *attributes = const_cast<CUlaunchAttribute *>(k.attributes.data());
    CUlaunchConfig c{p.gridDimX,       p.gridDimY,
                     p.gridDimZ,       p.blockDimX,
                     p.blockDimY,      p.blockDimZ,
                     p.sharedMemBytes, stream,
                     attributes,       static_cast<unsigned>(k.attributes.size())};
    return launch_in_order(c, k.function(), p.kernelParams, p.extra);
  });
  return true;
}

// A call for a stream reads and writes pageable memory before it returns (CUDA driver API, "API
// synchronization behavior"), a node when its turn comes. So such a node stays one.
bool GraphPlan::append_copy(CUgraphNode node) {
  CUDA_MEMCPY3D_v2 c{};
  if (graph_calls().cuGraphMemcpyNodeGetParams(node, &c) != CUDA_SUCCESS) return false;
  if (!touches_pageable_memory(c)) {
    steps_.emplace_back(
        [c](CUstream stream) { return graph_calls().cuMemcpy3DAsync_v2(&c, stream); });
    return true;
  }
  OneNode exec = graph_of_one_copy(c);
  if (!exec) return false;
  steps_.emplace_back(
      [exec](CUstream stream) { return graph_calls().cuGraphLaunch(exec.get(), stream); });
  return true;
}

bool GraphPlan::append_fill(CUgraphNode node) {
  CUDA_MEMSET_NODE_PARAMS_v1 f{};
  if (graph_calls().cuGraphMemsetNodeGetParams(node, &f) != CUDA_SUCCESS) return false;
  steps_.emplace_back([f](CUstream stream) { return fill(f, stream); });
  return true;
}

// By the entry that a checkpoint knows of, as if the program had called it.
bool GraphPlan::append_host_function(CUgraphNode node) {
  CUDA_HOST_NODE_PARAMS_v1 h{};
  if (graph_calls().cuGraphHostNodeGetParams(node, &h) != CUDA_SUCCESS) return false;
  steps_.emplace_back(
      [h](CUstream stream) { return entry_cuLaunchHostFunc(stream, h.fn, h.userData); });
  return true;
}

bool GraphPlan::append_event(CUgraphNode node, bool record) {
  CUevent event = nullptr;
  auto get = record ? graph_calls().cuGraphEventRecordNodeGetEvent
                    : graph_calls().cuGraphEventWaitNodeGetEvent;
  if (get(node, &event) != CUDA_SUCCESS) return false;
  steps_.emplace_back([event, record](CUstream stream) {
    return record ? driver().cuEventRecord(event, stream)
                  : driver().cuStreamWaitEvent(stream, event, 0);
  });
  return true;
}

}  // namespace ckpt::cuda::guest
