// SPDX-License-Identifier: Apache-2.0
//
// Nodes that record an event or wait for one.
#include "softcuda/driver/graphs/graph.h"

namespace ckpt::softcuda::driver {

// The records of now: a launch waits for what was recorded before it.
void take_events(Graph &g) {
  for (const std::unique_ptr<Node> &n : g.nodes) {
    if (n->child) take_events(*n->child);
    if (n->event == nullptr || !process().events.holds(n->event)) continue;
    std::lock_guard lock(n->event->mutex);
    n->record = n->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ? n->event->new_record()
                                                           : n->event->last_record();
  }
}

// What the launch records is reached when the whole graph has ended, because its nodes run one
// after the other.
void publish_events(Graph &g, const Point &end) {
  for (const std::unique_ptr<Node> &n : g.nodes) {
    if (n->child) publish_events(*n->child, end);
    if (n->type != CU_GRAPH_NODE_TYPE_EVENT_RECORD || !process().events.holds(n->event)) continue;
    std::lock_guard lock(n->event->mutex);
    n->event->set_record(n->record, end);
  }
}

namespace {

CUresult add_event_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n,
                        CUgraphNodeType type, CUevent handle) {
  CALL_INITIALISED();
  Event *event = process().events.get(handle);
  REQUIRE(event != nullptr, CUDA_ERROR_INVALID_HANDLE);
  Node *node = nullptr;
  CHECK_CU(new_node(out, graph, after, n, type, node));
  node->event = event;
  return CUDA_SUCCESS;
}

CUresult get_event(CUgraphNode handle, CUgraphNodeType type, CUevent *out) {
  CALL_INITIALISED();
  Node *n = nullptr;
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(node_of(handle, type, n));
  *out = reinterpret_cast<CUevent>(n->event);
  return CUDA_SUCCESS;
}

CUresult set_event(Node &n, CUevent handle) {
  Event *event = process().events.get(handle);
  REQUIRE(event != nullptr, CUDA_ERROR_INVALID_HANDLE);
  n.event = event;
  return CUDA_SUCCESS;
}

CUresult set_event(CUgraphNode handle, CUgraphNodeType type, CUevent event) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(handle, type, n));
  return set_event(*n, event);
}

CUresult set_exec_event(CUgraphExec exec, CUgraphNode handle, CUgraphNodeType type, CUevent event) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(exec_node_of(exec, handle, type, n));
  return set_event(*n, event);
}

}  // namespace
}  // namespace ckpt::softcuda::driver

using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph,
                                                const CUgraphNode *after, size_t n, CUevent event) {
  return add_event_node(out, graph, after, n, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
SOFTCUDA_API CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph,
                                              const CUgraphNode *after, size_t n, CUevent event) {
  return add_event_node(out, graph, after, n, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}
SOFTCUDA_API CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *out) {
  return get_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, out);
}
SOFTCUDA_API CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *out) {
  return get_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, out);
}
SOFTCUDA_API CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return set_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
SOFTCUDA_API CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return set_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}
SOFTCUDA_API CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                         CUevent event) {
  return set_exec_event(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
SOFTCUDA_API CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                       CUevent event) {
  return set_exec_event(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}
