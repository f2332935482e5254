// SPDX-License-Identifier: Apache-2.0
//
// Graphs; calls that take a stream are in stream.cc.
#include "softcuda/runtime/graph_params.h"

using namespace ckpt::softcuda::runtime;

CUDART_API cudaError_t cudaGraphCreate(cudaGraph_t *g, unsigned int flags) {
  FORWARD(cuGraphCreate(g, flags));
}
CUDART_API cudaError_t cudaGraphDestroy(cudaGraph_t g) { FORWARD(cuGraphDestroy(g)); }
CUDART_API cudaError_t cudaGraphClone(cudaGraph_t *out, cudaGraph_t g) {
  FORWARD(cuGraphClone(out, g));
}
CUDART_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g,
                                            unsigned long long flags) {
  FORWARD(cuGraphInstantiate(e, g, flags));
}
CUDART_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *e, cudaGraph_t g,
                                                     unsigned long long flags) {
  FORWARD(cuGraphInstantiate(e, g, flags));
}
CUDART_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) { FORWARD(cuGraphExecDestroy(e)); }
CUDART_API cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n) {
  FORWARD(cuGraphGetNodes(g, nodes, n));
}
CUDART_API cudaError_t cudaGraphGetRootNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n) {
  FORWARD(cuGraphGetRootNodes(g, nodes, n));
}
CUDART_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t n, cudaGraphNodeType *type) {
  FORWARD(cuGraphNodeGetType(n, reinterpret_cast<CUgraphNodeType *>(type)));
}
CUDART_API cudaError_t cudaGraphDestroyNode(cudaGraphNode_t n) { FORWARD(cuGraphDestroyNode(n)); }
CUDART_API cudaError_t cudaGraphAddDependencies(cudaGraph_t g, const cudaGraphNode_t *from,
                                                const cudaGraphNode_t *to,
                                                const cudaGraphEdgeData *, size_t n) {
  FORWARD(cuGraphAddDependencies(g, from, to, nullptr, n));
}
CUDART_API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *out, cudaGraph_t g,
                                             const cudaGraphNode_t *after, size_t n) {
  FORWARD(cuGraphAddEmptyNode(out, g, after, n));
}
CUDART_API cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *out, cudaGraph_t g,
                                                  const cudaGraphNode_t *after, size_t n,
                                                  cudaGraph_t child) {
  FORWARD(cuGraphAddChildGraphNode(out, g, after, n, child));
}
CUDART_API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *out, cudaGraph_t g,
                                            const cudaGraphNode_t *after, size_t n,
                                            const cudaHostNodeParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_HOST_NODE_PARAMS h{};
  h.fn = p->fn;
  h.userData = p->userData;
  FORWARD(cuGraphAddHostNode(out, g, after, n, &h));
}
CUDART_API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *out, cudaGraph_t g,
                                              const cudaGraphNode_t *after, size_t n,
                                              const cudaMemsetParams *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  CUDA_MEMSET_NODE_PARAMS m = memset_params(*p);
  FORWARD(cuGraphAddMemsetNode(out, g, after, n, &m, nullptr));
}
CUDART_API cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *out, cudaGraph_t g,
                                              const cudaGraphNode_t *after, size_t n,
                                              const cudaMemcpy3DParms *p) {
  if (p == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUDA_MEMCPY3D d = box(*p);
  return keep(as_runtime(cuGraphAddMemcpyNode(out, g, after, n, &d, nullptr)));
}
CUDART_API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *out, cudaGraph_t g,
                                                const cudaGraphNode_t *after, size_t n, void *dst,
                                                const void *src, size_t bytes, cudaMemcpyKind) {
  CUDA_MEMCPY3D d = rows(dst, bytes, src, bytes, bytes, 1);
  FORWARD(cuGraphAddMemcpyNode(out, g, after, n, &d, nullptr));
}

CUDART_API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *out, cudaGraph_t g,
                                              const cudaGraphNode_t *after, size_t n,
                                              const cudaKernelNodeParams *p) {
  CUDA_KERNEL_NODE_PARAMS k{};
  RETURN_IF(kernel_params(p, k));
  return keep(as_runtime(cuGraphAddKernelNode(out, g, after, n, &k)));
}
CUDART_API cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                    const cudaKernelNodeParams *p) {
  CUDA_KERNEL_NODE_PARAMS k{};
  RETURN_IF(kernel_params(p, k));
  return keep(as_runtime(cuGraphKernelNodeSetParams(node, &k)));
}
CUDART_API cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                                        const cudaKernelNodeParams *p) {
  CUDA_KERNEL_NODE_PARAMS k{};
  RETURN_IF(kernel_params(p, k));
  return keep(as_runtime(cuGraphExecKernelNodeSetParams(e, node, &k)));
}
CUDART_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t e, cudaGraph_t g,
                                           cudaGraphExecUpdateResultInfo *info) {
  CUgraphExecUpdateResultInfo i{};
  RETURN_IF(enter());
  CUresult r = cuGraphExecUpdate(e, g, &i);
  if (info != nullptr)
    *info = {static_cast<cudaGraphExecUpdateResult>(i.result), i.errorNode, i.errorFromNode};
  return keep(as_runtime(r));
}
