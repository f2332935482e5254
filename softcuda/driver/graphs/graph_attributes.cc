// SPDX-License-Identifier: Apache-2.0
//
// The attributes of kernel nodes. Those that change the result of a launch are kept; those that
// only affect speed are 0, and are ignored when they are set, as those of a launch (launch_api.cc).
#include "softcuda/driver/graphs/graph.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

namespace {

// Valid for graph nodes (CUDA driver API, CUlaunchAttributeID).
bool is_for_nodes(CUkernelNodeAttrID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return true;
    default: return false;
  }
}

// The cluster that the kernel declares is not one of the node's attributes.
CUlaunchAttributeValue value_of(const Launch &l, CUkernelNodeAttrID id) {
  CUlaunchAttributeValue v{};
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) v.cooperative = l.cooperative ? 1 : 0;
  if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    v.clusterDim.x = l.asked_cluster.x;
    v.clusterDim.y = l.asked_cluster.y;
    v.clusterDim.z = l.asked_cluster.z;
  }
  return v;
}

// Makes the launch once more, which checks the attributes together with the shape.
CUresult make_again(Node &n, Launch changed) {
  const Launch &old = n.launch;
  size_t bytes = old.params.size();
  void *buffer = const_cast<std::byte *>(old.params.data());
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  CHECK_CU(make_launch(n.context, old.handle, old.grid, old.block, old.shared, nullptr, extra,
                       changed.cooperative, changed));
  n.launch = std::move(changed);
  return CUDA_SUCCESS;
}

CUresult set_value(Node &n, CUkernelNodeAttrID id, const CUlaunchAttributeValue &v) {
  Launch changed = n.launch;
  if (id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE &&
      v.deviceUpdatableKernelNode.deviceUpdatable != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) changed.cooperative = v.cooperative != 0;
  if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    changed.asked_cluster = {v.clusterDim.x, v.clusterDim.y, v.clusterDim.z};
    REQUIRE(changed.asked_cluster.count() > 0, CUDA_ERROR_INVALID_VALUE);
  }
  return make_again(n, std::move(changed));
}

}  // namespace

SOFTCUDA_API CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                                    CUkernelNodeAttrValue *value) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, CU_GRAPH_NODE_TYPE_KERNEL, n));
  REQUIRE(value != nullptr && is_for_nodes(id), CUDA_ERROR_INVALID_VALUE);
  *value = value_of(n->launch, id);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                                    const CUkernelNodeAttrValue *value) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(node, CU_GRAPH_NODE_TYPE_KERNEL, n));
  REQUIRE(value != nullptr && is_for_nodes(id), CUDA_ERROR_INVALID_VALUE);
  return set_value(*n, id, *value);
}

SOFTCUDA_API CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  CALL_INITIALISED();
  Node *a = nullptr, *b = nullptr;
  CHECK_CU(node_of(to, CU_GRAPH_NODE_TYPE_KERNEL, a));
  CHECK_CU(node_of(from, CU_GRAPH_NODE_TYPE_KERNEL, b));
  Launch changed = a->launch;
  changed.cooperative = b->launch.cooperative;
  changed.asked_cluster = b->launch.asked_cluster;
  return make_again(*a, std::move(changed));
}
