// SPDX-License-Identifier: Apache-2.0
//
// Nodes that allocate and free memory. The address of an allocation is fixed when the node is made
// (CUDA programming guide, "Graph Memory Nodes"). Here the memory behind it is taken at the same
// time, and belongs to the graph and its copies: a launch only changes whether it counts as
// allocated.
#include "softcuda/driver/graphs/graph_memory.h"

#include <algorithm>

#include "softcuda/driver/graphs/capture.h"
#include "softcuda/driver/state/pools.h"

namespace ckpt::softcuda::driver {

// Guarded by `mutex`, but for what never changes.
struct GraphMemory {
  u64 base = 0, bytes = 0, reserved = 0, id = 0;
  int device = 0;
  bool allocated = false;
  ~GraphMemory();
};

namespace {

// Recursive, because the last reference to memory may be dropped under it.
std::recursive_mutex mutex;
std::map<u64, std::weak_ptr<GraphMemory>> &registry() {
  static auto *const kRegistry = new std::map<u64, std::weak_ptr<GraphMemory>>;
  return *kRegistry;
}

// Memory of all graphs on one device. It is associated with a graph for as long as it is reserved.
struct Use {
  u64 bytes = 0;
  u64 used_high = 0, reserved_high = 0;
};
Use &use_of(int device) {
  static auto *const kUses = new std::map<int, Use>;
  return (*kUses)[device];
}

void count(int device, u64 bytes) {
  Use &u = use_of(device);
  u.bytes += bytes;
  u.used_high = std::max(u.used_high, u.bytes);
  u.reserved_high = std::max(u.reserved_high, u.bytes);
}

std::shared_ptr<GraphMemory> memory_at(u64 base) {
  std::lock_guard lock(mutex);
  auto it = registry().find(base);
  return it == registry().end() ? nullptr : it->second.lock();
}

CUresult make_memory(Context &c, u64 bytes, std::shared_ptr<GraphMemory> &out) {
  CUdeviceptr base = 0;
  CHECK_CU(allocate_from(nullptr, c, bytes, &base));
  out = std::make_shared<GraphMemory>();
  out->base = base;
  out->bytes = bytes;
  out->device = c.device->index;
  std::optional<Allocation> a = process().memory->find(base);
  out->id = a->id;
  out->reserved = a->reserved;
  std::lock_guard lock(mutex);
  count(out->device, out->reserved);
  registry()[base] = out;
  return CUDA_SUCCESS;
}

bool frees(const Graph &g, u64 base) {
  return std::ranges::any_of(g.nodes, [&](const std::unique_ptr<Node> &n) {
    return n->type == CU_GRAPH_NODE_TYPE_MEM_FREE && n->freed == base;
  });
}

}  // namespace

// What is still allocated outlives the graph, and the program frees it. A reset of the context may
// have freed the memory, and something else may have its address.
GraphMemory::~GraphMemory() {
  {
    std::lock_guard lock(mutex);
    registry().erase(base);
    use_of(device).bytes -= reserved;
  }
  std::optional<Allocation> a = process().memory->find(base);
  if (!allocated && a && a->id == id) release_to_pool(base);
}

CUresult take_graph_memory(const Graph &g, unsigned long long flags) {
  std::lock_guard lock(mutex);
  bool automatic = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  for (const std::unique_ptr<Node> &n : g.nodes)
    REQUIRE(!n->memory || automatic || !n->memory->allocated, CUDA_ERROR_INVALID_VALUE);
  for (const std::unique_ptr<Node> &n : g.nodes)
    if (n->memory) n->memory->allocated = !frees(g, n->memory->base);
  // Memory that another graph has allocated.
  for (const std::unique_ptr<Node> &n : g.nodes) {
    auto it = registry().find(n->freed);
    std::shared_ptr<GraphMemory> m = it == registry().end() ? nullptr : it->second.lock();
    if (n->type == CU_GRAPH_NODE_TYPE_MEM_FREE && m) m->allocated = false;
  }
  return CUDA_SUCCESS;
}

bool free_graph_memory(CUdeviceptr p) {
  std::shared_ptr<GraphMemory> m = memory_at(p);
  std::lock_guard lock(mutex);
  return m && std::exchange(m->allocated, false);
}

CUresult capture_alloc(Capture &c, Stream &s, size_t bytes, CUdeviceptr *out) {
  std::shared_ptr<GraphMemory> m;
  CHECK_CU(make_memory(*s.context, bytes, m));
  *out = m->base;
  append(c, s, CU_GRAPH_NODE_TYPE_MEM_ALLOC)->memory = std::move(m);
  return CUDA_SUCCESS;
}

CUresult capture_free(Capture &c, Stream &s, CUdeviceptr p) {
  REQUIRE(memory_at(p) != nullptr, CUDA_ERROR_INVALID_VALUE);
  append(c, s, CU_GRAPH_NODE_TYPE_MEM_FREE)->freed = p;
  return CUDA_SUCCESS;
}

}  // namespace ckpt::softcuda::driver

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph,
                                             const CUgraphNode *after, size_t n,
                                             CUDA_MEM_ALLOC_NODE_PARAMS *p) {
  CALL_WITH_CONTEXT();
  REQUIRE(
      p != nullptr && p->bytesize > 0 && p->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE,
      CUDA_ERROR_INVALID_VALUE);
  // Memory of a device without a current context, and access by other devices.
  REQUIRE(p->poolProps.location.id == call.context->device->index && p->accessDescCount == 0,
          CUDA_ERROR_NOT_SUPPORTED);
  std::shared_ptr<GraphMemory> m;
  CHECK_CU(make_memory(*call.context, p->bytesize, m));
  Node *node = nullptr;
  CHECK_CU(new_node(out, graph, after, n, CU_GRAPH_NODE_TYPE_MEM_ALLOC, node));
  p->dptr = m->base;
  node->memory = std::move(m);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph,
                                            const CUgraphNode *after, size_t n, CUdeviceptr p) {
  CALL_INITIALISED();
  REQUIRE(memory_at(p) != nullptr, CUDA_ERROR_INVALID_VALUE);
  Node *node = nullptr;
  CHECK_CU(new_node(out, graph, after, n, CU_GRAPH_NODE_TYPE_MEM_FREE, node));
  node->freed = p;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode handle,
                                                   CUDA_MEM_ALLOC_NODE_PARAMS *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(handle, CU_GRAPH_NODE_TYPE_MEM_ALLOC, n));
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  *p = {};
  p->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p->poolProps.location.id = n->memory->device;
  p->bytesize = n->memory->bytes;
  p->dptr = n->memory->base;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr *p) {
  CALL_INITIALISED();
  Node *n = nullptr;
  CHECK_CU(node_of(handle, CU_GRAPH_NODE_TYPE_MEM_FREE, n));
  REQUIRE(p != nullptr, CUDA_ERROR_INVALID_VALUE);
  *p = n->freed;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                                   void *value) {
  CALL_INITIALISED();
  REQUIRE(device_at(device) != nullptr, CUDA_ERROR_INVALID_DEVICE);
  REQUIRE(value != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(mutex);
  const Use &u = use_of(device);
  cuuint64_t &out = *static_cast<cuuint64_t *>(value);
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: out = u.bytes; return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: out = u.used_high; return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: out = u.reserved_high; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// Only the high watermarks can be set, and only to zero: they begin anew.
SOFTCUDA_API CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                                   void *value) {
  CALL_INITIALISED();
  REQUIRE(device_at(device) != nullptr, CUDA_ERROR_INVALID_DEVICE);
  bool used = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
  REQUIRE(used || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(value != nullptr && *static_cast<cuuint64_t *>(value) == 0, CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(mutex);
  Use &u = use_of(device);
  (used ? u.used_high : u.reserved_high) = u.bytes;
  return CUDA_SUCCESS;
}

// There is nothing to trim: memory is released with its graphs.
SOFTCUDA_API CUresult cuDeviceGraphMemTrim(CUdevice device) {
  CALL_INITIALISED();
  return device_at(device) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
