// SPDX-License-Identifier: Apache-2.0
//
// Nodes that write values to memory or wait for them (cuGraphAddBatchMemOpNode).
#include <algorithm>

#include "softcuda/driver/graphs/graph.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

namespace {

constexpr CUgraphNodeType kType = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
constexpr unsigned kMaxOperations = 256;  // as of cuStreamBatchMemOp

CUresult operations_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, std::vector<ValueOperation> &out) {
  REQUIRE(p != nullptr && p->paramArray != nullptr && p->flags == 0 && p->count > 0 &&
              p->count <= kMaxOperations,
          CUDA_ERROR_INVALID_VALUE);
  REQUIRE(p->ctx == nullptr || process().contexts.holds(p->ctx), CUDA_ERROR_INVALID_VALUE);
  out.assign(p->paramArray, p->paramArray + p->count);
  for (const ValueOperation &o : out) CHECK_CU(check(o));
  return CUDA_SUCCESS;
}

CUresult set_operations(Node &n, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p) {
  std::vector<ValueOperation> all;
  CHECK_CU(operations_of(p, all));
  n.values = std::move(all);
  n.context = reinterpret_cast<Context *>(p->ctx);
  return CUDA_SUCCESS;
}

}  // namespace

SOFTCUDA_API CUresult cuGraphAddBatchMemOpNode(CUgraphNode *out, CUgraph graph,
                                               const CUgraphNode *after, size_t n,
                                               const CUDA_BATCH_MEM_OP_NODE_PARAMS *p) {
  CALL_INITIALISED();
  std::vector<ValueOperation> all;
  CHECK_CU(operations_of(p, all));
  Node *node = nullptr;
  CHECK_CU(new_node(out, graph, after, n, kType, node));
  return set_operations(*node, p);
}

SOFTCUDA_API CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node,
                                                     CUDA_BATCH_MEM_OP_NODE_PARAMS *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, kType, n));
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  *p = {reinterpret_cast<CUcontext>(n->context), static_cast<unsigned>(n->values.size()),
        n->values.data(), 0};
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                                     const CUDA_BATCH_MEM_OP_NODE_PARAMS *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, kType, n));
  return set_operations(*n, p);
}

// The number and the types of the operations stay, and so does the context.
SOFTCUDA_API CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                         const CUDA_BATCH_MEM_OP_NODE_PARAMS *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(exec_node_of(exec, node, kType, n));
  std::vector<ValueOperation> all;
  CHECK_CU(operations_of(p, all));
  REQUIRE(reinterpret_cast<CUcontext>(n->context) == p->ctx &&
              std::ranges::equal(all, n->values, {}, &ValueOperation::operation,
                                 &ValueOperation::operation),
          CUDA_ERROR_INVALID_VALUE);
  n->values = std::move(all);
  return CUDA_SUCCESS;
}
