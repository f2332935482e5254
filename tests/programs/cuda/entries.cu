// SPDX-License-Identifier: Apache-2.0
//
// Calls of the runtime API that few programs make, each with a check of what it does.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>

#include "check.h"

__global__ void add(int *p, int n) {
  if (threadIdx.x < n) p[threadIdx.x] += n;
}
__global__ void read_word(const int *p, int *out) { *out = *p; }
__constant__ int table[10];
__constant__ double scale = 2;
__global__ void use_constants(double *out) { *out = table[3] * scale; }

__global__ void shared_sizes(unsigned *out) {
  extern __shared__ char bytes[];
  bytes[0] = 1;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(out[0]));
  asm("mov.u32 %0, %%total_smem_size;" : "=r"(out[1]));
}

// The dynamic size is what was asked for. The total is a multiple of the allocation unit.
static void check_shared_sizes() {
  unsigned *p, host[2];
  CUDA(cudaMalloc(&p, sizeof host));
  for (unsigned bytes : {4u, 20u, 28u, 100u, 160u}) {
    shared_sizes<<<1, 1, bytes>>>(p);
    CUDA(cudaMemcpy(host, p, sizeof host, cudaMemcpyDefault));
    CHECK(host[0] == bytes);
    CHECK(host[1] == (bytes + 127) / 128 * 128);
  }
  CUDA(cudaFree(p));
}

static void check_attributes() {
  cudaFuncAttributes a;
  CUDA(cudaFuncGetAttributes(&a, use_constants));
  CHECK(a.constSizeBytes == sizeof(double) + sizeof table);
}

// A range may begin and end in the middle of a row.
static void check_array_copies() {
  constexpr size_t w = 7, h = 5, n = 20;
  cudaChannelFormatDesc d = cudaCreateChannelDesc<int>();
  cudaArray_t a, b;
  CUDA(cudaMallocArray(&a, &d, w, h));
  CUDA(cudaMallocArray(&b, &d, 4, 20));
  std::vector<int> zero(w * h), in(n), out(w * h);
  std::iota(in.begin(), in.end(), 1);
  CUDA(cudaMemcpyToArray(a, 0, 0, zero.data(), w * h * sizeof(int), cudaMemcpyHostToDevice));
  CUDA(cudaMemcpyToArray(a, 3 * sizeof(int), 1, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy2DFromArray(out.data(), w * 4, a, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < out.size(); ++i) {
    size_t at = i - (w + 3);
    CHECK(out[i] == (i >= w + 3 && at < n ? in[at] : 0));
  }
  std::vector<int> back(n);
  CUDA(cudaMemcpyFromArray(back.data(), a, 3 * sizeof(int), 1, n * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(back == in);
  CUDA(cudaMemcpyArrayToArray(b, 4, 2, a, 3 * sizeof(int), 1, n * sizeof(int), cudaMemcpyDeviceToDevice));
  std::fill(back.begin(), back.end(), 0);
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  CUDA(cudaMemcpyFromArrayAsync(back.data(), b, 4, 2, n * sizeof(int), cudaMemcpyDeviceToHost, s));
  CUDA(cudaStreamSynchronize(s));
  CHECK(back == in);
  CUDA(cudaMemcpy2DArrayToArray(b, 0, 0, a, 0, 2, 2 * sizeof(int), 2, cudaMemcpyDeviceToDevice));
  int corner[4];
  CUDA(cudaMemcpy2DFromArrayAsync(corner, 8, b, 0, 0, 8, 2, cudaMemcpyDeviceToHost, s));
  CUDA(cudaStreamSynchronize(s));
  CHECK(corner[0] == out[2 * w] && corner[3] == out[3 * w + 1]);
  // Too much for the array.
  CHECK(cudaMemcpyToArray(a, 4, 4, in.data(), n * sizeof(int), cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  cudaGetLastError();
  CUDA(cudaFreeArray(a));
  CUDA(cudaFreeArray(b));
  CUDA(cudaStreamDestroy(s));
}

static void check_fills_and_batches() {
  cudaExtent e = make_cudaExtent(5, 3, 2);
  cudaPitchedPtr p;
  CUDA(cudaMalloc3D(&p, e));
  CUDA(cudaMemset3DAsync(p, 9, e, nullptr));
  std::vector<char> host(5 * 3 * 2);
  cudaMemcpy3DPeerParms c{};
  c.srcPtr = p;
  c.dstPtr = make_cudaPitchedPtr(host.data(), 5, 5, 3);
  c.extent = e;
  CUDA(cudaMemcpy3DPeer(&c));
  for (char b : host) CHECK(b == 9);
  int *q, in[2] = {3, 4}, out[2] = {};
  CUDA(cudaMalloc(&q, 8));
  void *dsts[] = {q, q + 1};
  const void *srcs[] = {in, in + 1};
  size_t sizes[] = {4, 4}, first = 0;
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  CUDA(cudaMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &first, 1, s));
  CUDA(cudaMemcpyAsync(out, q, 8, cudaMemcpyDefault, s));
  CUDA(cudaStreamSynchronize(s));
  CHECK(out[0] == 3 && out[1] == 4);
  CUDA(cudaStreamDestroy(s));
}

static void check_stream_attributes() {
  cudaStream_t s, t;
  CUDA(cudaStreamCreate(&s));
  CUDA(cudaStreamCreate(&t));
  cudaStreamAttrValue v{};
  CUDA(cudaStreamGetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &v));
  CHECK(v.syncPolicy == cudaSyncPolicyAuto);
  v = {};
  v.accessPolicyWindow.num_bytes = 4096;
  v.accessPolicyWindow.hitRatio = 0.5;
  CUDA(cudaStreamSetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &v));
  CUDA(cudaStreamCopyAttributes(t, s));
  v = {};
  CUDA(cudaStreamGetAttribute(t, cudaStreamAttributeAccessPolicyWindow, &v));
  CHECK(v.accessPolicyWindow.num_bytes == 4096);
  CUDA(cudaCtxResetPersistingL2Cache());
  CUDA(cudaStreamDestroy(s));
  CUDA(cudaStreamDestroy(t));
}

static void check_capture() {
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeGlobal);
  CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeRelaxed);
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  int *p;
  CUDA(cudaMalloc(&p, 64));
  add<<<1, 16, 0, s>>>(p, 16);
  cudaStreamCaptureStatus status;
  unsigned long long id = 0;
  cudaGraph_t g, same;
  const cudaGraphNode_t *last;
  size_t n = 0;
  CUDA(cudaStreamGetCaptureInfo(s, &status, &id, &g, &last, nullptr, &n));
  CHECK(status == cudaStreamCaptureStatusActive && id != 0 && n == 1);
  cudaKernelNodeParams k{};
  CUDA(cudaStreamEndCapture(s, &same));
  CHECK(same == g);
  cudaGraphNode_t node;
  n = 1;
  CUDA(cudaGraphGetNodes(g, &node, &n));
  CUDA(cudaGraphKernelNodeGetParams(node, &k));
  CHECK(k.func == reinterpret_cast<void *>(add) && k.blockDim.x == 16);
  CHECK(*static_cast<int **>(k.kernelParams[0]) == p && *static_cast<int *>(k.kernelParams[1]) == 16);
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaFree(p));
  CUDA(cudaStreamDestroy(s));
}

static cudaGraphNodeParams kernel_node(void **args) {
  cudaGraphNodeParams p{};
  p.type = cudaGraphNodeTypeKernel;
  p.kernel.func = reinterpret_cast<void *>(add);
  p.kernel.gridDim = dim3(1);
  p.kernel.blockDim = dim3(4);
  p.kernel.kernelParams = args;
  return p;
}

// The address is known before the graph runs, and the memory is there while it does.
static void check_graph_memory() {
  cudaGraph_t g;
  cudaStream_t s;
  int *p, n = 4, host[4] = {};
  CUDA(cudaStreamCreate(&s));
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  CUDA(cudaMallocAsync(&p, sizeof host, s));
  CUDA(cudaMemsetAsync(p, 0, sizeof host, s));
  add<<<1, 4, 0, s>>>(p, n);
  CUDA(cudaMemcpyAsync(host, p, sizeof host, cudaMemcpyDefault, s));
  CUDA(cudaFreeAsync(p, s));
  CUDA(cudaStreamEndCapture(s, &g));
  cudaGraphExec_t e;
  CUDA(cudaGraphInstantiate(&e, g, 0));
  for (int i = 0; i < 2; ++i) CUDA(cudaGraphLaunch(e, s));
  CUDA(cudaStreamSynchronize(s));
  CHECK(host[0] == 4 && host[3] == 4);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));

  // Without a node that frees it, the program does.
  cudaMemAllocNodeParams m{};
  m.poolProps.allocType = cudaMemAllocationTypePinned;
  m.poolProps.location = {cudaMemLocationTypeDevice, 0};
  m.bytesize = 4 << 20;
  cudaGraphNode_t node;
  CUDA(cudaGraphCreate(&g, 0));
  CUDA(cudaGraphAddMemAllocNode(&node, g, nullptr, 0, &m));
  CUDA(cudaGraphInstantiate(&e, g, 0));
  CUDA(cudaGraphLaunch(e, s));
  CHECK(cudaGraphLaunch(e, s) == cudaErrorInvalidValue);
  cudaGetLastError();
  CUDA(cudaFree(m.dptr));
  CUDA(cudaGraphLaunch(e, s));
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaMemset(m.dptr, 1, 64));
  CUDA(cudaFree(m.dptr));
  CHECK(cudaMemset(m.dptr, 1, 64) == cudaErrorInvalidValue);
  cudaGetLastError();
  CUDA(cudaStreamDestroy(s));
}

static void check_user_objects() {
  static int destroyed = 0;
  cudaUserObject_t object;
  cudaGraph_t g;
  CUDA(cudaGraphCreate(&g, 0));
  CUDA(cudaUserObjectCreate(&object, &destroyed, [](void *n) { ++*static_cast<int *>(n); }, 1,
                            cudaUserObjectNoDestructorSync));
  CUDA(cudaGraphRetainUserObject(g, object, 1, cudaGraphUserObjectMove));
  cudaGraphExec_t e;
  CUDA(cudaGraphInstantiate(&e, g, 0));
  CUDA(cudaGraphDestroy(g));
  CHECK(destroyed == 0);
  CUDA(cudaGraphExecDestroy(e));
  CHECK(destroyed == 1);
}

static std::string text_of(const std::string &path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// memset -> kernel -> event -> memcpy
static void check_graphs() {
  int *p, n = 4, host[4], other[4];
  CUDA(cudaMalloc(&p, sizeof host));
  void *args[] = {&p, &n};
  cudaGraph_t g, clone;
  CUDA(cudaGraphCreate(&g, 0));
  cudaMemsetParams fill{p, 0, 1, 4, 4, 1};
  cudaGraphNode_t set, kernel, record, copy;
  CUDA(cudaGraphAddMemsetNode(&set, g, nullptr, 0, &fill));
  cudaGraphNodeParams params = kernel_node(args);
  CUDA(cudaGraphAddNode(&kernel, g, &set, nullptr, 1, &params));
  cudaEvent_t event;
  CUDA(cudaEventCreate(&event));
  CUDA(cudaGraphAddEventRecordNode(&record, g, &kernel, 1, event));
  CUDA(cudaGraphAddMemcpyNode1D(&copy, g, &record, 1, host, p, sizeof host, cudaMemcpyDefault));

  cudaGraphNode_t from[8], to[8];
  size_t edges = 0, before = 1;
  CUDA(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &edges));
  CHECK(edges == 3);
  CUDA(cudaGraphGetEdges(g, from, to, nullptr, &edges));
  CHECK(from[0] == set && to[0] == kernel);
  CUDA(cudaGraphNodeGetDependencies(copy, from, nullptr, &before));
  CHECK(before == 1 && from[0] == record);
  cudaMemsetParams same{};
  CUDA(cudaGraphMemsetNodeGetParams(set, &same));
  CHECK(same.dst == p && same.value == 1 && same.elementSize == 4 && same.width == 4);
  cudaMemcpy3DParms shape{};
  CUDA(cudaGraphMemcpyNodeGetParams(copy, &shape));
  CHECK(shape.srcPtr.ptr == p && shape.dstPtr.ptr == host && shape.extent.width == sizeof host);
  std::string dot = "/proc/self/fd/" + std::to_string(fileno(std::tmpfile()));
  CUDA(cudaGraphDebugDotPrint(g, dot.c_str(), 0));
  CHECK(text_of(dot).find("KERNEL") != std::string::npos && text_of(dot).find("->") != std::string::npos);
  CUDA(cudaGraphClone(&clone, g));
  cudaGraphNode_t cloned;
  CUDA(cudaGraphNodeFindInClone(&cloned, kernel, clone));
  cudaKernelNodeParams k{};
  CUDA(cudaGraphKernelNodeGetParams(cloned, &k));
  CHECK(k.blockDim.x == 4);

  cudaGraphExec_t e;
  cudaGraphInstantiateParams how{};
  CUDA(cudaGraphInstantiateWithParams(&e, g, &how));
  CHECK(how.result_out == cudaGraphInstantiateSuccess);
  CUDA(cudaGraphLaunch(e, nullptr));
  CUDA(cudaEventSynchronize(event));
  CHECK(host[0] == 5 && host[3] == 5);
  fill.value = 2;
  CUDA(cudaGraphExecMemsetNodeSetParams(e, set, &fill));
  CUDA(cudaGraphExecMemcpyNodeSetParams1D(e, copy, other, p, sizeof other, cudaMemcpyDefault));
  CUDA(cudaGraphLaunch(e, nullptr));
  CUDA(cudaDeviceSynchronize());
  CHECK(other[0] == 6 && host[0] == 5);
  CUDA(cudaGraphRemoveDependencies(g, &set, &kernel, nullptr, 1));
  CUDA(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &edges));
  CHECK(edges == 2);
  CUDA(cudaGraphExecDestroy(e));
  CUDA(cudaGraphDestroy(clone));
  CUDA(cudaGraphDestroy(g));
  CUDA(cudaFree(p));
}

static void check_graph_waits_for_an_event() {
  int *p, n = 1;
  CUDA(cudaMalloc(&p, 4));
  CUDA(cudaMemset(p, 0, 4));
  CUDA(cudaDeviceSynchronize());  // the other streams do not wait for the default one
  void *args[] = {&p, &n};
  cudaEvent_t event;
  cudaStream_t s, t;
  CUDA(cudaEventCreate(&event));
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  cudaGraph_t g;
  cudaGraphNode_t wait, kernel;
  CUDA(cudaGraphCreate(&g, 0));
  CUDA(cudaGraphAddEventWaitNode(&wait, g, nullptr, 0, event));
  cudaGraphNodeParams params = kernel_node(args);
  CUDA(cudaGraphAddNode(&kernel, g, &wait, nullptr, 1, &params));
  cudaGraphExec_t e;
  CUDA(cudaGraphInstantiate(&e, g, 0));
  volatile int open = 0;
  CUDA(cudaLaunchHostFunc(s, [](void *flag) { while (!*static_cast<volatile int *>(flag)); }, (void *)&open));
  CUDA(cudaEventRecord(event, s));
  CUDA(cudaGraphLaunch(e, t));
  CHECK(cudaStreamQuery(t) == cudaErrorNotReady);
  open = 1;
  CUDA(cudaStreamSynchronize(t));
  int host = 0;
  CUDA(cudaMemcpy(&host, p, 4, cudaMemcpyDefault));
  CHECK(host == 1);
}

// Memory of a pool is not covered by peer access.
static void check_pool_access() {
  int devices = 0, *p, *out;
  CUDA(cudaGetDeviceCount(&devices));
  if (devices < 2) return;
  cudaMemPool_t pool;
  CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  CUDA(cudaMallocAsync(&p, 4, nullptr));
  CUDA(cudaMemset(p, 0, 4));
  cudaMemLocation second{cudaMemLocationTypeDevice, 1};
  cudaMemAccessFlags flags;
  CUDA(cudaMemPoolGetAccess(&flags, pool, &second));
  CHECK(flags == cudaMemAccessFlagsProtNone);
  cudaMemAccessDesc access{second, cudaMemAccessFlagsProtReadWrite};
  CUDA(cudaMemPoolSetAccess(pool, &access, 1));
  CUDA(cudaMemPoolGetAccess(&flags, pool, &second));
  CHECK(flags == cudaMemAccessFlagsProtReadWrite);
  CUDA(cudaDeviceSynchronize());  // the memset is asynchronous, and in a stream of the first device
  CUDA(cudaSetDevice(1));
  CUDA(cudaMalloc(&out, 4));
  add<<<1, 1>>>(p, 1);
  read_word<<<1, 1>>>(p, out);
  int host = 0;
  CUDA(cudaMemcpy(&host, out, 4, cudaMemcpyDefault));
  CHECK(host == 1);
  CUDA(cudaSetDevice(0));
}

static void check_managed_ranges() {
  char *p;
  CUDA(cudaMallocManaged(&p, 4096));
  int value = 7;
  CUDA(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, p, 4096));
  CHECK(value == 0);
  CUDA(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributePreferredLocation, p, 4096));
  CHECK(value == cudaInvalidDeviceId);
  CUDA(cudaFree(p));
}

static const char kPtx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.global .align 4 .u32 word = 41;\n"
                           ".visible .entry bump() {\n.reg .b32 %r<3>;\nld.global.u32 %r1, [word];\n"
                           "add.u32 %r2, %r1, 1;\nst.global.u32 [word], %r2;\nret;\n}\n";

static void check_libraries() {
  cudaLibrary_t library;
  cudaKernel_t kernel;
  CUDA(cudaLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUDA(cudaLibraryGetKernel(&kernel, library, "bump"));
  CUDA(cudaLaunchKernel(reinterpret_cast<void *>(kernel), dim3(1), dim3(1), nullptr, 0, nullptr));
  void *word;
  size_t bytes;
  int host = 0;
  CUDA(cudaLibraryGetGlobal(&word, &bytes, library, "word"));
  CUDA(cudaMemcpy(&host, word, 4, cudaMemcpyDefault));
  CHECK(bytes == 4 && host == 42);
  CUDA(cudaLibraryUnload(library));
}

static void check_small_entries() {
  int (*version)(int *) = nullptr, number = 0;
  cudaDriverEntryPointQueryResult found;
  CUDA(cudaGetDriverEntryPoint("cuDriverGetVersion", reinterpret_cast<void **>(&version), cudaEnableDefault, &found));
  CHECK(found == cudaDriverEntryPointSuccess && version(&number) == 0 && number >= 13000);
  CUDA(cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeEightByte));
  CUDA(cudaFuncSetSharedMemConfig(add, cudaSharedMemBankSizeDefault));
  int devices[] = {0};
  CUDA(cudaSetValidDevices(devices, 1));
  devices[0] = 99;
  CHECK(cudaSetValidDevices(devices, 1) == cudaErrorInvalidDevice);
  cudaGetLastError();
}

// A reset destroys what the context has; the next call makes it anew.
static void check_reset() {
  int *p, *q;
  CUDA(cudaMalloc(&p, 4));
  CUDA(cudaDeviceReset());
  CHECK(cudaFree(p) == cudaErrorInvalidValue);
  cudaGetLastError();
  CUDA(cudaMalloc(&q, 4));
  add<<<1, 1>>>(q, 1);
  CUDA(cudaDeviceSynchronize());
}

static void check_all_of_graphs() {
  check_capture();
  check_graphs();
  check_graph_waits_for_an_event();
  check_graph_memory();
  check_user_objects();
}

// entries graphs: only these.
int main(int argc, char **) {
  if (argc > 1) {
    check_all_of_graphs();
    return passed();
  }
  check_shared_sizes();
  check_attributes();
  check_array_copies();
  check_fills_and_batches();
  check_stream_attributes();
  check_all_of_graphs();
  check_pool_access();
  check_managed_ranges();
  check_libraries();
  check_small_entries();
  check_reset();
  return passed();
}
