// SPDX-License-Identifier: Apache-2.0
//
// Less common calls for graphs: kernel node attributes, memcpy nodes to and from symbols, memory
// allocation nodes, stream capture into an existing graph, changes of a capture's dependencies, and
// batch memory operation nodes (write a value, wait for a value).
#include "graphs.h"

__device__ int table[kN];

__global__ void take_table(int *p) { p[threadIdx.x] = p[threadIdx.x] * 2 + table[threadIdx.x]; }

static cudaGraph_t new_graph() {
  cudaGraph_t g;
  CUDA(cudaGraphCreate(&g, 0));
  return g;
}
static cudaGraphNode_t add(cudaGraph_t g, int *p, int times, int plus, cudaGraphNode_t after = nullptr) {
  cudaGraphNode_t n;
  Apply what(p, times, plus);
  cudaKernelNodeParams k = what.runtime();
  CUDA(cudaGraphAddKernelNode(&n, g, &after, after ? 1 : 0, &k));
  return n;
}
static bool fails(cudaError_t e, cudaError_t expected) {
  cudaGetLastError();
  return e == expected;
}

static void check_attributes() {
  int *p = new_ints(1);
  cudaGraph_t g = new_graph();
  cudaGraphNode_t a = add(g, p, 2, 1), b = add(g, p, 3, 1, a), empty;
  CUDA(cudaGraphAddEmptyNode(&empty, g, nullptr, 0));
  cudaLaunchAttributeValue v{};
  v.cooperative = 1;
  CUDA(cudaGraphKernelNodeSetAttribute(a, cudaLaunchAttributeCooperative, &v));
  CUDA(cudaGraphKernelNodeGetAttribute(b, cudaLaunchAttributeCooperative, &v));
  CHECK(v.cooperative == 0);
  CUDA(cudaGraphKernelNodeCopyAttributes(b, a));
  CUDA(cudaGraphKernelNodeGetAttribute(b, cudaLaunchAttributeCooperative, &v));
  CHECK(v.cooperative == 1);
  CHECK(fails(cudaGraphKernelNodeGetAttribute(empty, cudaLaunchAttributeCooperative, &v), cudaErrorInvalidValue));
  CHECK(fails(cudaGraphKernelNodeGetAttribute(b, cudaLaunchAttributeProgrammaticEvent, &v), cudaErrorInvalidValue));
  cudaGraphExec_t e = executable(g);
  launch(e, nullptr);
  CHECK(first_of(p) == 10);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaFree(p));
}

static void check_variables() {
  int *p = new_ints(1);
  std::vector<int> in(kN, 5), out(kN), more(kN, 9);
  cudaGraph_t g = new_graph();
  cudaGraphNode_t to, kernel, from;
  void *args[] = {&p};
  cudaKernelNodeParams k{};
  k.func = reinterpret_cast<void *>(take_table);
  k.gridDim = 1, k.blockDim = kN, k.kernelParams = args;
  CUDA(cudaGraphAddMemcpyNodeToSymbol(&to, g, nullptr, 0, table, in.data(), kBytes, 0, cudaMemcpyHostToDevice));
  CUDA(cudaGraphAddKernelNode(&kernel, g, &to, 1, &k));
  CUDA(cudaGraphAddMemcpyNodeFromSymbol(&from, g, &kernel, 1, out.data(), table, kBytes - 40, 40, cudaMemcpyDeviceToHost));
  cudaGraphExec_t e = executable(g);
  launch(e, nullptr);
  CHECK(first_of(p) == 7 && out[0] == 5 && out[kN - 11] == 5 && out[kN - 10] == 0);
  CUDA(cudaGraphExecMemcpyNodeSetParamsToSymbol(e, to, table, more.data(), kBytes, 0, cudaMemcpyHostToDevice));
  CUDA(cudaGraphExecMemcpyNodeSetParamsFromSymbol(e, from, out.data() + kN - 1, table, 4, 0, cudaMemcpyDeviceToHost));
  launch(e, nullptr);
  CHECK(first_of(p) == 23 && out[0] == 5 && out[kN - 1] == 9);
  // The graph itself has not changed; then it does.
  CUDA(cudaGraphMemcpyNodeSetParamsFromSymbol(from, out.data(), table, kBytes, 0, cudaMemcpyDeviceToHost));
  CUDA(cudaGraphMemcpyNodeSetParamsToSymbol(to, table, more.data(), 4 * (kN - 1), 4, cudaMemcpyHostToDevice));
  cudaGraphExec_t f = executable(g);
  int one = 1;
  CUDA(cudaMemcpyToSymbol(table, &one, 4));
  launch(f, nullptr);
  CHECK(out[0] == 1 && out[1] == 9 && out[kN - 1] == 9);
  CHECK(fails(cudaGraphMemcpyNodeSetParamsToSymbol(to, table, in.data(), kBytes, 4, cudaMemcpyHostToDevice),
              cudaErrorInvalidValue));
  CHECK(fails(cudaGraphMemcpyNodeSetParamsToSymbol(to, table, in.data(), 4, ~size_t{0}, cudaMemcpyHostToDevice),
              cudaErrorInvalidValue));
  CHECK(fails(cudaGraphMemcpyNodeSetParamsToSymbol(to, &one, in.data(), 4, 0, cudaMemcpyHostToDevice),
              cudaErrorInvalidSymbol));
  CHECK(fails(cudaGraphMemcpyNodeSetParamsToSymbol(kernel, table, in.data(), 4, 0, cudaMemcpyHostToDevice),
              cudaErrorInvalidValue));
  for (cudaGraphExec_t x : {e, f}) CUDA(cudaGraphExecDestroy(x));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaFree(p));
}

static size_t memory_of_graphs(cudaGraphMemAttributeType what) {
  size_t bytes = 1;
  CUDA(cudaDeviceGetGraphMemAttribute(0, what, &bytes));
  return bytes;
}
static void check_memory() {
  size_t zero = 0, one = 1;
  CHECK(memory_of_graphs(cudaGraphMemAttrUsedMemCurrent) == 0);
  cudaGraph_t g = new_graph();
  cudaGraphNode_t a, b, freed, other_freed;
  cudaMemAllocNodeParams p{}, q{};
  p.poolProps.allocType = cudaMemAllocationTypePinned;
  p.poolProps.location.type = cudaMemLocationTypeDevice;
  p.bytesize = kBytes;
  CUDA(cudaGraphAddMemAllocNode(&a, g, nullptr, 0, &p));
  CUDA(cudaGraphMemAllocNodeGetParams(a, &q));
  CHECK(q.dptr == p.dptr && q.bytesize == kBytes && q.poolProps.location.type == cudaMemLocationTypeDevice);
  cudaGraphNodeParams any{};
  any.type = cudaGraphNodeTypeMemAlloc;
  any.alloc.poolProps = p.poolProps;
  any.alloc.bytesize = 4 << 20;
  CUDA(cudaGraphAddNode(&b, g, nullptr, nullptr, 0, &any));
  CHECK(any.alloc.dptr != nullptr && any.alloc.dptr != p.dptr);
  size_t used = memory_of_graphs(cudaGraphMemAttrUsedMemCurrent);
  CHECK(used >= kBytes + (4 << 20) && used <= memory_of_graphs(cudaGraphMemAttrReservedMemCurrent));
  CHECK(fails(cudaGraphMemAllocNodeGetParams(add(g, static_cast<int *>(p.dptr), 0, 3, a), &q), cudaErrorInvalidValue));
  cudaGraphNode_t last = add(g, static_cast<int *>(p.dptr), 2, 1, a);
  CUDA(cudaGraphAddMemFreeNode(&freed, g, &last, 1, p.dptr));
  CUDA(cudaGraphAddMemFreeNode(&other_freed, g, &b, 1, any.alloc.dptr));
  cudaGraphExec_t e = executable(g);
  launch(e, nullptr, 2);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaDeviceSynchronize());
  CHECK(memory_of_graphs(cudaGraphMemAttrUsedMemHigh) >= used);
  CUDA(cudaDeviceGraphMemTrim(0));
  CHECK(memory_of_graphs(cudaGraphMemAttrReservedMemCurrent) == 0);
  CHECK(fails(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &one), cudaErrorInvalidValue));
  CHECK(fails(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &zero), cudaErrorInvalidValue));
  CUDA(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero));
  CHECK(memory_of_graphs(cudaGraphMemAttrUsedMemHigh) == 0);
  CHECK(memory_of_graphs(cudaGraphMemAttrReservedMemHigh) >= used);
}

static void check_captures_into_graphs() {
  int *p = new_ints(1);
  cudaStream_t s = new_stream();
  cudaGraph_t g = new_graph(), other = new_graph(), ended;
  cudaGraphExec_t e;
  cudaGraphNode_t first = add(g, p, 2, 1), foreign = add(other, p, 1, 1);
  constexpr cudaStreamCaptureMode kMode = cudaStreamCaptureModeGlobal;
  CHECK(fails(cudaStreamBeginCaptureToGraph(s, g, &foreign, nullptr, 1, kMode), cudaErrorInvalidValue));
  CUDA(cudaStreamBeginCaptureToGraph(s, g, &first, nullptr, 1, kMode));
  CHECK(fails(cudaStreamBeginCaptureToGraph(s, other, nullptr, nullptr, 0, kMode), cudaErrorIllegalState));
  apply<<<1, kN, 0, s>>>(p, kN, 5, 2);
  CHECK(fails(cudaGraphInstantiate(&e, g, 0), cudaErrorInvalidValue));
  CUDA(cudaStreamEndCapture(s, &ended));
  CHECK(ended == g);
  // Once more, at the end of what there is now, with a second stream.
  cudaGraphNode_t nodes[2];
  size_t n = 2;
  CUDA(cudaGraphGetNodes(g, nodes, &n));
  CHECK(n == 2 && nodes[0] == first);
  cudaGraphNode_t from, to;
  size_t edges = 1;
  CUDA(cudaGraphGetEdges(g, &from, &to, nullptr, &edges));
  CHECK(edges == 1 && from == nodes[0] && to == nodes[1]);
  cudaStream_t t = new_stream();
  cudaEvent_t fork, join;
  CUDA(cudaEventCreate(&fork));
  CUDA(cudaEventCreate(&join));
  CUDA(cudaStreamBeginCaptureToGraph(s, g, &nodes[1], nullptr, 1, kMode));
  CUDA(cudaEventRecord(fork, s));
  CUDA(cudaStreamWaitEvent(t, fork, 0));
  apply<<<1, kN, 0, t>>>(p, kN, 10, 3);
  CUDA(cudaEventRecord(join, t));
  CUDA(cudaStreamWaitEvent(s, join, 0));
  apply<<<1, kN, 0, s>>>(p, kN, 10, 4);
  CUDA(cudaStreamEndCapture(s, &ended));
  e = executable(g);
  launch(e, nullptr);
  CHECK(first_of(p) == 1734);  // (1 * 2 + 1) * 5 + 2 = 17
  CUDA(cudaGraphExecDestroy(e));
  for (cudaGraph_t x : {g, other}) CUDA(cudaGraphDestroy(x));
  for (cudaEvent_t x : {fork, join}) CUDA(cudaEventDestroy(x));
  for (cudaStream_t x : {s, t}) CUDA(cudaStreamDestroy(x));
  CUDA(cudaFree(p));
}

// A program inserts nodes of its own into a graph that is captured.
static void check_dependencies_of_captures() {
  int *p = new_ints(1);
  cudaStream_t s = new_stream();
  cudaGraph_t g, captured;
  const cudaGraphNode_t *last;
  size_t n;
  cudaStreamCaptureStatus status;
  cudaGraphNode_t none = nullptr;
  CHECK(fails(cudaStreamUpdateCaptureDependencies(s, &none, nullptr, 0, cudaStreamSetCaptureDependencies),
              cudaErrorIllegalState));
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  apply<<<1, kN, 0, s>>>(p, kN, 2, 1);
  CUDA(cudaStreamGetCaptureInfo(s, &status, nullptr, &g, &last, nullptr, &n));
  CHECK(status == cudaStreamCaptureStatusActive && n == 1);
  cudaGraphNode_t captured_first = *last, mine = add(g, p, 5, 2, captured_first), side = add(g, p, 1, 0, captured_first);
  CUDA(cudaStreamUpdateCaptureDependencies(s, &mine, nullptr, 1, cudaStreamSetCaptureDependencies));
  CUDA(cudaStreamUpdateCaptureDependencies(s, &side, nullptr, 1, cudaStreamAddCaptureDependencies));
  CUDA(cudaStreamGetCaptureInfo(s, &status, nullptr, &g, &last, nullptr, &n));
  CHECK(n == 2 && last[0] == mine && last[1] == side);
  CHECK(fails(cudaStreamUpdateCaptureDependencies(s, &none, nullptr, 1, cudaStreamSetCaptureDependencies),
              cudaErrorInvalidValue));
  CHECK(fails(cudaStreamUpdateCaptureDependencies(s, &mine, nullptr, 1, 2), cudaErrorInvalidValue));
  apply<<<1, kN, 0, s>>>(p, kN, 10, 3);
  CUDA(cudaStreamEndCapture(s, &captured));
  CHECK(captured == g);
  CUDA(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &n));
  CHECK(n == 4);
  cudaGraphExec_t e = executable(g);
  launch(e, nullptr);
  CHECK(first_of(p) == 173);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaStreamDestroy(s));
  CUDA(cudaFree(p));
}

static CUstreamBatchMemOpParams operation(CUstreamBatchMemOpType type, void *at, cuuint64_t value, unsigned flags) {
  CUstreamBatchMemOpParams o{};
  o.operation = type;
  o.waitValue.address = reinterpret_cast<CUdeviceptr>(at);
  o.waitValue.value64 = value;
  o.waitValue.flags = flags;
  return o;
}
static void check_values() {
  int *p = new_ints(0);
  CUcontext context;
  OK(cuCtxGetCurrent(&context));
  CUgraph g = new_graph();
  CUgraphNode writes, waits;
  CUstreamBatchMemOpParams all[] = {operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, p, 7, 0),
                                    operation(CU_STREAM_MEM_OP_WRITE_VALUE_64, p + 2, (9ull << 32) + 8, 0)};
  CUstreamBatchMemOpParams wait = operation(CU_STREAM_MEM_OP_WAIT_VALUE_32, p, 7, CU_STREAM_WAIT_VALUE_EQ);
  CUDA_BATCH_MEM_OP_NODE_PARAMS w{context, 2, all, 0}, r{context, 1, &wait, 0}, out{};
  OK(cuGraphAddBatchMemOpNode(&writes, g, nullptr, 0, &w));
  OK(cuGraphAddBatchMemOpNode(&waits, g, &writes, 1, &r));
  OK(cuGraphBatchMemOpNodeGetParams(writes, &out));
  CHECK(out.ctx == context && out.count == 2 && out.paramArray[1].writeValue.value64 == (9ull << 32) + 8);
  CUgraphNodeType type;
  OK(cuGraphNodeGetType(writes, &type));
  CHECK(type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  cudaGraphExec_t e = executable(g);
  std::vector<int> host(kN);
  auto values = [&] {
    launch(e, nullptr);
    CUDA(cudaMemcpy(host.data(), p, kBytes, cudaMemcpyDeviceToHost));
    return host.data();
  };
  CHECK(values()[0] == 7 && host[1] == 0 && host[2] == 8 && host[3] == 9 && host[4] == 0);
  all[0].writeValue.value = 6, wait.waitValue.value = 6;
  OK(cuGraphExecBatchMemOpNodeSetParams(e, writes, &w));
  OK(cuGraphExecBatchMemOpNodeSetParams(e, waits, &r));
  CHECK(values()[0] == 6);
  CHECK(cuGraphExecBatchMemOpNodeSetParams(e, writes, &r) == CUDA_ERROR_INVALID_VALUE);  // not as many
  all[1].writeValue.address = 4;
  CHECK(cuGraphBatchMemOpNodeSetParams(writes, &w) == CUDA_ERROR_INVALID_VALUE);
  w.count = 1;
  OK(cuGraphBatchMemOpNodeSetParams(writes, &w));
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  // A capture makes such nodes.
  cudaStream_t s = new_stream();
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  OK(cuStreamWriteValue32(s, reinterpret_cast<CUdeviceptr>(p), 4, 0));
  OK(cuStreamWaitValue32(s, reinterpret_cast<CUdeviceptr>(p), 4, CU_STREAM_WAIT_VALUE_EQ));
  apply<<<1, kN, 0, s>>>(p, kN, 10, 1);
  CUDA(cudaStreamEndCapture(s, &g));
  e = executable(g);
  CHECK(values()[0] == 41 && values()[0] == 41);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaStreamDestroy(s));
  CUDA(cudaFree(p));
}

int main() {
  check_attributes();
  check_variables();
  check_memory();
  check_captures_into_graphs();
  check_dependencies_of_captures();
  check_values();
  return passed();
}
