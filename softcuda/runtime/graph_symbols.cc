// SPDX-License-Identifier: Apache-2.0
//
// Nodes of graphs that copy to and from variables of the device.
#include "softcuda/runtime/boxes.h"

using namespace ckpt::softcuda::runtime;

namespace {

// The address of `n` bytes at offset `at` of a variable.
cudaError_t part_of(const void *symbol, size_t at, size_t n, void *&out) {
  CUdeviceptr p = 0;
  size_t bytes = 0;
  if (cudaError_t e = enter(); e != cudaSuccess) return e;
  if (cudaError_t e = variable_of(symbol, p, bytes); e != cudaSuccess) return e;
  if (at > bytes || n > bytes - at) return cudaErrorInvalidValue;
  out = reinterpret_cast<void *>(p + at);
  return cudaSuccess;
}

cudaError_t copy_to(const void *symbol, const void *src, size_t n, size_t at, CUDA_MEMCPY3D &out) {
  void *dst = nullptr;
  if (cudaError_t e = part_of(symbol, at, n, dst); e != cudaSuccess) return e;
  out = rows(dst, n, src, n, n, 1);
  return cudaSuccess;
}

cudaError_t copy_from(void *dst, const void *symbol, size_t n, size_t at, CUDA_MEMCPY3D &out) {
  void *src = nullptr;
  if (cudaError_t e = part_of(symbol, at, n, src); e != cudaSuccess) return e;
  out = rows(dst, n, src, n, n, 1);
  return cudaSuccess;
}

}  // namespace

CUDART_API cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *out, cudaGraph_t g,
                                                      const cudaGraphNode_t *after, size_t count,
                                                      const void *symbol, const void *src, size_t n,
                                                      size_t at, cudaMemcpyKind) {
  CUDA_MEMCPY3D d{};
  RETURN_IF(copy_to(symbol, src, n, at, d));
  return keep(as_runtime(cuGraphAddMemcpyNode(out, g, after, count, &d, nullptr)));
}
CUDART_API cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *out, cudaGraph_t g,
                                                        const cudaGraphNode_t *after, size_t count,
                                                        void *dst, const void *symbol, size_t n,
                                                        size_t at, cudaMemcpyKind) {
  CUDA_MEMCPY3D d{};
  RETURN_IF(copy_from(dst, symbol, n, at, d));
  return keep(as_runtime(cuGraphAddMemcpyNode(out, g, after, count, &d, nullptr)));
}
CUDART_API cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node,
                                                            const void *symbol, const void *src,
                                                            size_t n, size_t at, cudaMemcpyKind) {
  CUDA_MEMCPY3D d{};
  RETURN_IF(copy_to(symbol, src, n, at, d));
  return keep(as_runtime(cuGraphMemcpyNodeSetParams(node, &d)));
}
CUDART_API cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst,
                                                              const void *symbol, size_t n,
                                                              size_t at, cudaMemcpyKind) {
  CUDA_MEMCPY3D d{};
  RETURN_IF(copy_from(dst, symbol, n, at, d));
  return keep(as_runtime(cuGraphMemcpyNodeSetParams(node, &d)));
}
CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t e,
                                                                cudaGraphNode_t node,
                                                                const void *symbol, const void *src,
                                                                size_t n, size_t at,
                                                                cudaMemcpyKind) {
  CUDA_MEMCPY3D d{};
  RETURN_IF(copy_to(symbol, src, n, at, d));
  return keep(as_runtime(cuGraphExecMemcpyNodeSetParams(e, node, &d, nullptr)));
}
CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t e,
                                                                  cudaGraphNode_t node, void *dst,
                                                                  const void *symbol, size_t n,
                                                                  size_t at, cudaMemcpyKind) {
  CUDA_MEMCPY3D d{};
  RETURN_IF(copy_from(dst, symbol, n, at, d));
  return keep(as_runtime(cuGraphExecMemcpyNodeSetParams(e, node, &d, nullptr)));
}
