// SPDX-License-Identifier: Apache-2.0
//
// cuIpc*MemHandle.
#include <algorithm>
#include <thread>

#include "softcuda/driver/state/ipc.h"
#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {
namespace {

using broker::ShareId;

// What this process exports, by the number of the allocation. The lock is never held while another
// one is taken.
struct Exports {
  std::mutex mutex;
  std::map<u64, ShareId> by_allocation;
};
Exports &exports() {
  static Exports *const kExports = new Exports;
  return *kExports;
}

// What this process has opened, by the number of the allocation. A context that is destroyed takes
// its memory with it, so an entry counts only while its allocation lives.
struct Opened {
  ShareId id{};
  u64 base = 0;
  Context *context = nullptr;
  u32 uses = 0;
};
struct Imports {
  std::mutex mutex;
  std::map<u64, Opened> by_allocation;
};
Imports &imports() {
  static Imports *const kImports = new Imports;
  return *kImports;
}

bool is_alive(u64 allocation, u64 base) {
  std::optional<Allocation> a = process().memory->find(base);
  return a && a->id == allocation;
}

void drop_dead_imports() {
  std::erase_if(imports().by_allocation,
                [](const auto &entry) { return !is_alive(entry.first, entry.second.base); });
}

void withdraw_export(u64 allocation) {
  std::optional<ShareId> id;
  {
    std::lock_guard lock(exports().mutex);
    auto node = exports().by_allocation.extract(allocation);
    if (node) id = node.mapped();
  }
  if (id) client().withdraw(*id);
}

std::optional<ShareId> export_of(u64 allocation) {
  std::lock_guard lock(exports().mutex);
  auto it = exports().by_allocation.find(allocation);
  return it == exports().by_allocation.end() ? std::nullopt : std::optional(it->second);
}

// Closed for a moment at a time: what runs may wait for work that would wait here.
void keep_out_work() {
  using std::chrono::milliseconds;
  while (!process().device_access.close(milliseconds(100)))
    std::this_thread::sleep_for(milliseconds(1));
}

Result<ShareId> share(const Allocation &a) {
  process().memory->on_release_of_exported = &withdraw_export;
  keep_out_work();
  auto shared = process().memory->share(a.base);
  process().device_access.open();
  if (!shared) return Failure(shared.error());
  const auto &[fd, part] = *shared;
  Writer w;
  w.raw(process().devices[a.device]->uuid.bytes, 16);
  w.put(part.file_bytes).put(part.offset).put(part.bytes).put(part.reserved);
  return client().share(w.bytes(), fd.get());
}

CUresult export_memory(const Allocation &a, ShareId &out) {
  static std::mutex mutex;
  std::lock_guard one_at_a_time(mutex);
  if (std::optional<ShareId> known = export_of(a.id)) {
    out = *known;
    return CUDA_SUCCESS;
  }
  Result<ShareId> id = share(a);
  if (!id) {
    warn(id.error().text());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::lock_guard lock(exports().mutex);
  exports().by_allocation[a.id] = out = *id;
  return CUDA_SUCCESS;
}

// The device that the memory is on. One that this process does not see can be opened, too (CUDA
// driver API, cuIpcOpenMemHandle); then the memory counts as that of the current device.
u32 device_with(ByteView uuid, const Context &c) {
  auto it = std::ranges::find_if(process().devices, [&](const std::unique_ptr<Device> &d) {
    return std::memcmp(d->uuid.bytes, uuid.data(), uuid.size()) == 0;
  });
  return static_cast<u32>(it == process().devices.end() ? c.device->index : (*it)->index);
}

CUresult import_memory(const broker::Share &s, Context &c, Allocation &out) {
  Reader r(s.description);
  ByteView uuid = r.raw(16);
  SharedPart part;
  for (u64 *field : {&part.file_bytes, &part.offset, &part.bytes, &part.reserved})
    *field = r.get<u64>();
  REQUIRE(r.done(), CUDA_ERROR_INVALID_HANDLE);
  u32 device = device_with(uuid, c);
  std::optional<Allocation> a = process().memory->import(s.fd.get(), part, device, &c);
  REQUIRE(a, CUDA_ERROR_MAP_FAILED);
  if (device != static_cast<u32>(c.device->index)) c.peers |= 1u << device;
  out = *a;
  return CUDA_SUCCESS;
}

// Memory that a context has opened already has one more use. Only one context of a device may open
// it in this process (CUDA driver API, cuIpcOpenMemHandle).
CUresult open_again(const ShareId &id, Context &c, CUdeviceptr *out) {
  for (auto &[allocation, o] : imports().by_allocation) {
    if (o.id != id || o.context->device != c.device) continue;
    REQUIRE(o.context == &c, CUDA_ERROR_INVALID_CONTEXT);
    ++o.uses;
    *out = o.base;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult open_memory(const ShareId &id, Context &c, CUdeviceptr *out) {
  std::lock_guard lock(imports().mutex);
  drop_dead_imports();
  if (CUresult e = open_again(id, c, out); e != CUDA_ERROR_NOT_FOUND) return e;
  Result<std::optional<broker::Share>> s = client().open(id);
  REQUIRE(s && *s, CUDA_ERROR_INVALID_HANDLE);
  REQUIRE((*s)->owner != client().identity(), CUDA_ERROR_INVALID_CONTEXT);
  Allocation a;
  CHECK_CU(import_memory(**s, c, a));
  imports().by_allocation[a.id] = {id, a.base, &c, 1};
  *out = a.base;
  return CUDA_SUCCESS;
}

}  // namespace

std::optional<std::string> shared_memory() {
  std::lock_guard lock(imports().mutex);
  drop_dead_imports();
  if (!imports().by_allocation.empty())
    return "memory of another process is open (cuIpcOpenMemHandle)";
  std::lock_guard exported(exports().mutex);
  if (!exports().by_allocation.empty())
    return "memory is exported to other processes (cuIpcGetMemHandle)";
  return {};
}

std::optional<std::string> shared_with_others() {
  std::optional<std::string> what = shared_memory();
  return what ? what : shared_events();
}

}  // namespace ckpt::softcuda::driver

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

// The handle stands for the whole allocation, whichever address in it the program passes.
SOFTCUDA_API CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr p) {
  CALL_WITH_CONTEXT();
  std::optional<Allocation> a = process().memory->find(p);
  REQUIRE(out != nullptr && a && a->kind == MemoryKind::Device, CUDA_ERROR_INVALID_VALUE);
  broker::ShareId id{};
  CHECK_CU(export_memory(*a, id));
  *out = handle_of<CUipcMemHandle>(HandleKind::Memory, id);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle,
                                            unsigned int flags) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CUDA_ERROR_INVALID_VALUE);
  std::optional<broker::ShareId> id = id_in(handle, HandleKind::Memory);
  REQUIRE(id, CUDA_ERROR_INVALID_HANDLE);
  return open_memory(*id, *call.context, out);
}

#undef cuIpcOpenMemHandle
SOFTCUDA_API CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle,
                                         unsigned int flags) {
  return cuIpcOpenMemHandle_v2(out, handle, flags);
}

// Waits for running work, which may use the memory.
SOFTCUDA_API CUresult cuIpcCloseMemHandle(CUdeviceptr p) {
  CALL_WITH_CONTEXT();
  std::lock_guard lock(imports().mutex);
  drop_dead_imports();
  std::map<ckpt::u64, Opened> &all = imports().by_allocation;
  auto it = std::ranges::find_if(all, [&](const auto &entry) { return entry.second.base == p; });
  REQUIRE(it != all.end(), CUDA_ERROR_INVALID_VALUE);
  if (--it->second.uses > 0) return CUDA_SUCCESS;
  for (Context *c : process().contexts.all()) c->synchronize();
  process().memory->release(p, MemoryKind::Imported);
  all.erase(it);
  return CUDA_SUCCESS;
}
