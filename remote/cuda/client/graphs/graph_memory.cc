// SPDX-License-Identifier: Apache-2.0
//
// The address of an allocation is fixed when its node is made (CUDA driver API,
// cuGraphAddMemAllocNode). The memory behind it is taken at the same time, so that nodes can name
// it, and a checkpoint saves it. A launch only changes whether it counts as allocated.
#include "remote/cuda/client/graphs/graph_memory.h"

#include <algorithm>
#include <map>

#include "remote/cuda/client/memory/memory.h"

namespace ckpt::remote::cuda {

struct GraphMemory {
  u64 base = 0, bytes = 0, context = 0, id = 0;
  CUdevice device = 0;
  bool allocated = false;  // guarded by the registry's mutex
  ~GraphMemory();
};

namespace {

struct Usage {
  u64 used = 0, most_used = 0, reserved = 0, most_reserved = 0;
};

struct Registry {
  std::mutex mutex;
  std::map<u64, GraphMemory *> all;
  std::map<CUdevice, Usage> usage;

  void set_allocated(GraphMemory &m, bool allocated) {
    if (std::exchange(m.allocated, allocated) == allocated) return;
    Usage &u = usage[m.device];
    u.used = allocated ? u.used + m.bytes : u.used - m.bytes;
    u.most_used = std::max(u.most_used, u.used);
  }
  void add(GraphMemory &m) {
    all[m.base] = &m;
    Usage &u = usage[m.device];
    u.most_reserved = std::max(u.most_reserved, u.reserved += m.bytes);
  }
  // nullptr also if it has ended with its context, and something else may have its address.
  GraphMemory *find(u64 base) {
    auto found = all.find(base);
    std::optional<Allocation> a = memory().find(base);
    return found != all.end() && a && a->id == found->second->id ? found->second : nullptr;
  }
};

Registry &registry() {
  static auto *const kRegistry = new Registry;
  return *kRegistry;
}

}  // namespace

// What is still allocated outlives the graph, and the program frees it. Otherwise a launch may
// still use it.
GraphMemory::~GraphMemory() {
  bool kept = false;
  {
    std::lock_guard lock(registry().mutex);
    kept = allocated || registry().find(base) != this;
    registry().set_allocated(*this, false);
    registry().usage[device].reserved -= bytes;
    auto found = registry().all.find(base);
    if (found != registry().all.end() && found->second == this) registry().all.erase(found);
  }
  if (kept) return;
  (void)settle(context);
  memory().release(base);
}

CUresult allocate_for_graph(u64 context, u64 bytes, std::shared_ptr<GraphMemory> &out) {
  u64 base = 0;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult e = memory().allocate(context, bytes, base); e != CUDA_SUCCESS) return e;
  out = std::make_shared<GraphMemory>();
  out->base = base;
  out->bytes = bytes;
  out->context = context;
  out->device = ledger().device_of(context).value_or(0);
  out->id = memory().find(base)->id;
  std::lock_guard lock(registry().mutex);
  registry().add(*out);
  return CUDA_SUCCESS;
}

CUdeviceptr address_of(const GraphMemory &m) { return m.base; }

void describe(const GraphMemory &m, CUDA_MEM_ALLOC_NODE_PARAMS &out) {
  out = {};
  out.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  out.poolProps.location.id = m.device;
  out.bytesize = m.bytes;
  out.dptr = m.base;
}

bool is_graph_memory(CUdeviceptr p) {
  std::lock_guard lock(registry().mutex);
  return registry().find(p) != nullptr;
}

CUresult use_graph_memory(const MemoryUse &use, bool automatic) {
  if (use.allocated.empty() && use.freed.empty()) return CUDA_SUCCESS;
  std::lock_guard lock(registry().mutex);
  for (const std::shared_ptr<GraphMemory> &m : use.allocated)
    if (m->allocated && !automatic) return CUDA_ERROR_INVALID_VALUE;
  for (const std::shared_ptr<GraphMemory> &m : use.allocated) registry().set_allocated(*m, true);
  for (u64 base : use.freed)
    if (GraphMemory *m = registry().find(base)) registry().set_allocated(*m, false);
  return CUDA_SUCCESS;
}

bool free_graph_memory(CUdeviceptr p) {
  std::lock_guard lock(registry().mutex);
  GraphMemory *m = registry().find(p);
  if (!m || !m->allocated) return false;
  registry().set_allocated(*m, false);
  return true;
}

namespace {

CUresult check_device(CUdevice device) {
  int devices = 0;
  CUresult e = entry_cuDeviceGetCount(&devices);
  if (e != CUDA_SUCCESS) return e;
  return device >= 0 && device < devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

u64 *figure(Usage &u, CUgraphMem_attribute what) {
  switch (what) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: return &u.used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: return &u.most_used;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: return &u.reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: return &u.most_reserved;
    default: return nullptr;
  }
}

}  // namespace

CUresult entry_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute what,
                                            void *value) {
  if (CUresult e = check_device(device); e != CUDA_SUCCESS) return e;
  std::lock_guard lock(registry().mutex);
  const u64 *found = figure(registry().usage[device], what);
  if (!found || !value) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(value, found, sizeof *found);
  return CUDA_SUCCESS;
}

// Only the highest values can be set, and only to zero (cuDeviceSetGraphMemAttribute's
// documentation).
CUresult entry_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute what,
                                            void *value) {
  if (CUresult e = check_device(device); e != CUDA_SUCCESS) return e;
  u64 wanted = 1;
  if (value) std::memcpy(&wanted, value, sizeof wanted);
  bool highest =
      what == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || what == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  if (!highest || wanted != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(registry().mutex);
  *figure(registry().usage[device], what) = 0;
  return CUDA_SUCCESS;
}

// There is nothing to trim: memory is released with its graphs.
CUresult entry_cuDeviceGraphMemTrim(CUdevice device) { return check_device(device); }

}  // namespace ckpt::remote::cuda
