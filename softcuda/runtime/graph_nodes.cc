// SPDX-License-Identifier: Apache-2.0
//
// Nodes of graphs: what they do, what they depend on, and how a program changes them.
#include "softcuda/runtime/graph_params.h"

using namespace ckpt::softcuda::runtime;

CUDART_API cudaError_t cudaGraphAddNode(cudaGraphNode_t *out, cudaGraph_t g,
                                        const cudaGraphNode_t *after, const cudaGraphEdgeData *,
                                        size_t n, cudaGraphNodeParams *p) {
  CUgraphNodeParams d{};
  RETURN_IF(driver_params(p, d));
  RETURN_IF(as_runtime(cuGraphAddNode(out, g, after, nullptr, n, &d)));
  if (p->type == cudaGraphNodeTypeMemAlloc) p->alloc.dptr = reinterpret_cast<void *>(d.alloc.dptr);
  return cudaSuccess;
}
CUDART_API cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams *p) {
  CUgraphNodeParams d{};
  RETURN_IF(driver_params(p, d));
  return keep(as_runtime(cuGraphNodeSetParams(node, &d)));
}
CUDART_API cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                                  cudaGraphNodeParams *p) {
  CUgraphNodeParams d{};
  RETURN_IF(driver_params(p, d));
  return keep(as_runtime(cuGraphExecNodeSetParams(e, node, &d)));
}

CUDART_API cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_KERNEL_NODE_PARAMS k{};
  RETURN_IF(enter());
  RETURN_IF(as_runtime(cuGraphKernelNodeGetParams(node, &k)));
  *p = {};
  p->func = const_cast<void *>(host_function(reinterpret_cast<CUkernel>(k.func)));
  p->gridDim = dim3(k.gridDimX, k.gridDimY, k.gridDimZ);
  p->blockDim = dim3(k.blockDimX, k.blockDimY, k.blockDimZ);
  p->sharedMemBytes = k.sharedMemBytes;
  p->kernelParams = k.kernelParams;
  return cudaSuccess;
}
CUDART_API cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_MEMCPY3D d{};
  RETURN_IF(enter());
  RETURN_IF(as_runtime(cuGraphMemcpyNodeGetParams(node, &d)));
  *p = parms_of(d);
  return cudaSuccess;
}
CUDART_API cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_MEMSET_NODE_PARAMS m{};
  RETURN_IF(enter());
  RETURN_IF(as_runtime(cuGraphMemsetNodeGetParams(node, &m)));
  *p = {reinterpret_cast<void *>(m.dst), m.pitch, m.value, m.elementSize, m.width, m.height};
  return cudaSuccess;
}
CUDART_API cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_HOST_NODE_PARAMS h{};
  RETURN_IF(enter());
  RETURN_IF(as_runtime(cuGraphHostNodeGetParams(node, &h)));
  *p = {h.fn, h.userData};
  return cudaSuccess;
}

CUDART_API cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                                    const cudaMemcpy3DParms *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUDA_MEMCPY3D d = box(*p);
  return keep(as_runtime(cuGraphMemcpyNodeSetParams(node, &d)));
}
CUDART_API cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst,
                                                      const void *src, size_t n, cudaMemcpyKind) {
  CUDA_MEMCPY3D d = rows(dst, n, src, n, n, 1);
  FORWARD(cuGraphMemcpyNodeSetParams(node, &d));
}
CUDART_API cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                                    const cudaMemsetParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_MEMSET_NODE_PARAMS m = memset_params(*p);
  FORWARD(cuGraphMemsetNodeSetParams(node, &m));
}
CUDART_API cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                                  const cudaHostNodeParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_HOST_NODE_PARAMS h{p->fn, p->userData};
  FORWARD(cuGraphHostNodeSetParams(node, &h));
}
CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                                        const cudaMemcpy3DParms *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUDA_MEMCPY3D d = box(*p);
  return keep(as_runtime(cuGraphExecMemcpyNodeSetParams(e, node, &d, nullptr)));
}
CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t e, cudaGraphNode_t node,
                                                          void *dst, const void *src, size_t n,
                                                          cudaMemcpyKind) {
  CUDA_MEMCPY3D d = rows(dst, n, src, n, n, 1);
  FORWARD(cuGraphExecMemcpyNodeSetParams(e, node, &d, nullptr));
}
CUDART_API cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                                        const cudaMemsetParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_MEMSET_NODE_PARAMS m = memset_params(*p);
  FORWARD(cuGraphExecMemsetNodeSetParams(e, node, &m, nullptr));
}
CUDART_API cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                                      const cudaHostNodeParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_HOST_NODE_PARAMS h{p->fn, p->userData};
  FORWARD(cuGraphExecHostNodeSetParams(e, node, &h));
}

// The attributes have the same layout in both APIs.
CUDART_API cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node,
                                                       cudaLaunchAttributeID id,
                                                       const cudaLaunchAttributeValue *value) {
  FORWARD(cuGraphKernelNodeSetAttribute(node, static_cast<CUlaunchAttributeID>(id),
                                        reinterpret_cast<const CUlaunchAttributeValue *>(value)));
}
CUDART_API cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node,
                                                       cudaLaunchAttributeID id,
                                                       cudaLaunchAttributeValue *value) {
  FORWARD(cuGraphKernelNodeGetAttribute(node, static_cast<CUlaunchAttributeID>(id),
                                        reinterpret_cast<CUlaunchAttributeValue *>(value)));
}
CUDART_API cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from) {
  FORWARD(cuGraphKernelNodeCopyAttributes(to, from));
}

CUDART_API cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *out, cudaGraph_t g,
                                                   const cudaGraphNode_t *after, size_t n,
                                                   cudaEvent_t event) {
  FORWARD(cuGraphAddEventRecordNode(out, g, after, n, event));
}
CUDART_API cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *out, cudaGraph_t g,
                                                 const cudaGraphNode_t *after, size_t n,
                                                 cudaEvent_t event) {
  FORWARD(cuGraphAddEventWaitNode(out, g, after, n, event));
}
CUDART_API cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *out) {
  FORWARD(cuGraphEventRecordNodeGetEvent(node, out));
}
CUDART_API cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *out) {
  FORWARD(cuGraphEventWaitNodeGetEvent(node, out));
}
CUDART_API cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  FORWARD(cuGraphEventRecordNodeSetEvent(node, event));
}
CUDART_API cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  FORWARD(cuGraphEventWaitNodeSetEvent(node, event));
}
CUDART_API cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t e, cudaGraphNode_t node,
                                                            cudaEvent_t event) {
  FORWARD(cuGraphExecEventRecordNodeSetEvent(e, node, event));
}
CUDART_API cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t e, cudaGraphNode_t node,
                                                          cudaEvent_t event) {
  FORWARD(cuGraphExecEventWaitNodeSetEvent(e, node, event));
}

// Every edge is an ordinary dependency: its data is zero.
static void clear(cudaGraphEdgeData *edges, const size_t *n) {
  if (edges != nullptr && n != nullptr) std::memset(edges, 0, *n * sizeof *edges);
}
CUDART_API cudaError_t cudaGraphGetEdges(cudaGraph_t g, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                         cudaGraphEdgeData *edges, size_t *n) {
  clear(edges, n);
  FORWARD(cuGraphGetEdges(g, from, to, nullptr, n));
}
CUDART_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *out,
                                                    cudaGraphEdgeData *edges, size_t *n) {
  clear(edges, n);
  FORWARD(cuGraphNodeGetDependencies(node, out, nullptr, n));
}
CUDART_API cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *out,
                                                      cudaGraphEdgeData *edges, size_t *n) {
  clear(edges, n);
  FORWARD(cuGraphNodeGetDependentNodes(node, out, nullptr, n));
}
CUDART_API cudaError_t cudaGraphRemoveDependencies(cudaGraph_t g, const cudaGraphNode_t *from,
                                                   const cudaGraphNode_t *to,
                                                   const cudaGraphEdgeData *, size_t n) {
  FORWARD(cuGraphRemoveDependencies(g, from, to, nullptr, n));
}
CUDART_API cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                                            cudaGraph_t child) {
  FORWARD(cuGraphExecChildGraphNodeSetParams(e, node, child));
}
CUDART_API cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *out) {
  FORWARD(cuGraphChildGraphNodeGetGraph(node, out));
}
CUDART_API cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *out, cudaGraphNode_t original,
                                                cudaGraph_t clone) {
  FORWARD(cuGraphNodeFindInClone(out, original, clone));
}
CUDART_API cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t e, cudaGraphNode_t node,
                                               unsigned int enabled) {
  FORWARD(cuGraphNodeSetEnabled(e, node, enabled));
}
CUDART_API cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t e, cudaGraphNode_t node,
                                               unsigned int *enabled) {
  FORWARD(cuGraphNodeGetEnabled(e, node, enabled));
}
CUDART_API cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t e, unsigned long long *flags) {
  cuuint64_t f = 0;
  if (flags == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  RETURN_IF(as_runtime(cuGraphExecGetFlags(e, &f)));
  *flags = f;
  return cudaSuccess;
}
CUDART_API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t g, const char *path, unsigned int flags) {
  FORWARD(cuGraphDebugDotPrint(g, path, flags));
}

CUDART_API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *out, cudaGraph_t g,
                                                const cudaGraphNode_t *after, size_t n,
                                                cudaMemAllocNodeParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_MEM_ALLOC_NODE_PARAMS d{};
  allocation_params(*p, d);
  RETURN_IF(enter());
  RETURN_IF(as_runtime(cuGraphAddMemAllocNode(out, g, after, n, &d)));
  p->dptr = reinterpret_cast<void *>(d.dptr);
  return cudaSuccess;
}
CUDART_API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *out, cudaGraph_t g,
                                               const cudaGraphNode_t *after, size_t n, void *p) {
  FORWARD(cuGraphAddMemFreeNode(out, g, after, n, address(p)));
}
CUDART_API cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                                      cudaMemAllocNodeParams *p) {
  CUDA_MEM_ALLOC_NODE_PARAMS d{};
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  RETURN_IF(as_runtime(cuGraphMemAllocNodeGetParams(node, &d)));
  *p = {};
  p->poolProps.allocType = static_cast<cudaMemAllocationType>(d.poolProps.allocType);
  p->poolProps.location.type = static_cast<cudaMemLocationType>(d.poolProps.location.type);
  p->poolProps.location.id = d.poolProps.location.id;
  p->bytesize = d.bytesize;
  p->dptr = reinterpret_cast<void *>(d.dptr);
  return cudaSuccess;
}
CUDART_API cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *p) {
  FORWARD(cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr *>(p)));
}
CUDART_API cudaError_t cudaDeviceGetGraphMemAttribute(int device,
                                                      cudaGraphMemAttributeType attribute,
                                                      void *value) {
  RETURN_IF(initialise());
  return keep(as_runtime(
      cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value)));
}
CUDART_API cudaError_t cudaDeviceSetGraphMemAttribute(int device,
                                                      cudaGraphMemAttributeType attribute,
                                                      void *value) {
  RETURN_IF(initialise());
  return keep(as_runtime(
      cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value)));
}
CUDART_API cudaError_t cudaDeviceGraphMemTrim(int device) {
  RETURN_IF(initialise());
  return keep(as_runtime(cuDeviceGraphMemTrim(device)));
}

CUDART_API cudaError_t cudaUserObjectCreate(cudaUserObject_t *out, void *data, cudaHostFn_t destroy,
                                            unsigned int count, unsigned int flags) {
  FORWARD(cuUserObjectCreate(out, data, destroy, count, flags));
}
CUDART_API cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  FORWARD(cuUserObjectRetain(object, count));
}
CUDART_API cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  FORWARD(cuUserObjectRelease(object, count));
}
CUDART_API cudaError_t cudaGraphRetainUserObject(cudaGraph_t g, cudaUserObject_t object,
                                                 unsigned int count, unsigned int flags) {
  FORWARD(cuGraphRetainUserObject(g, object, count, flags));
}
CUDART_API cudaError_t cudaGraphReleaseUserObject(cudaGraph_t g, cudaUserObject_t object,
                                                  unsigned int count) {
  FORWARD(cuGraphReleaseUserObject(g, object, count));
}
