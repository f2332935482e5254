// SPDX-License-Identifier: Apache-2.0
//
// Virtual memory management: reservations of addresses, physical memory, and mappings between them.
// Physical memory is a memfd, because it may be mapped several times.
#include "softcuda/driver/memory/vmm.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/ipc/shared_memory.h"
#include "common/ipc/unix_socket.h"
#include "softcuda/driver/memory/shared_physical.h"
#include "softcuda/driver/state/strict.h"

namespace ckpt::softcuda::driver {
namespace {

struct Physical {
  UniqueFd fd;
  u64 bytes = 0;
  CUmemAllocationProp prop{};
  u32 handles = 1;
  u32 mappings = 0;
  bool imported = false;
  bool shared = false;  // the broker knows its file, which other processes may have
  Bytes saved;          // while the process is checkpointed
};

std::mutex mutex;
std::map<u64, std::unique_ptr<Physical>> &physicals() {
  static auto *const kPhysicals = new std::map<u64, std::unique_ptr<Physical>>;
  return *kPhysicals;
}

Physical *find(u64 handle) {
  auto it = physicals().find(handle);
  return it == physicals().end() ? nullptr : it->second.get();
}

u32 device_of(const Physical &p) { return static_cast<u32>(p.prop.location.id); }

u64 file_of(const Physical &p) {
  struct stat st {};
  return ::fstat(p.fd.get(), &st) == 0 ? st.st_ino : 0;
}

// Memory that any process has counts once. A process that exports it may release it before the
// others do.
void share(Physical &p) {
  if (!std::exchange(p.shared, true)) client().hold(file_of(p), device_of(p), p.bytes, !p.imported);
}

void give_back(Physical &p) {
  if (std::exchange(p.shared, false))
    client().drop(file_of(p));
  else
    process().budget->give(device_of(p), p.bytes);
}

// Physical memory is freed when neither a handle nor a mapping refers to it.
void drop_if_unused(u64 handle) {
  Physical *p = find(handle);
  if (p == nullptr || p->handles > 0 || p->mappings > 0) return;
  give_back(*p);
  physicals().erase(handle);
}

bool open_memory(Physical &p) {
  Result<UniqueFd> fd = make_memfd(memory_file_name(p.prop.location.id).c_str(), p.bytes);
  if (fd) p.fd = std::move(*fd);
  return bool(fd);
}

// New memory holds what was there before. With zeros, no test would notice that contents were not
// loaded.
bool leave_dirt(const Physical &p) {
  static const bool kDirty = std::getenv("CKPT_SOFTCUDA_DIRTY") != nullptr;
  if (!kDirty) return true;
  const Bytes dirt(kGranuleBytes, std::byte{0xa5});
  for (size_t at = 0; at < p.bytes; at += dirt.size())
    if (!write_all_at(p.fd.get(), dirt, static_cast<off_t>(at))) return false;
  return true;
}

CUresult check_prop(const CUmemAllocationProp *prop) {
  REQUIRE(prop != nullptr && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE(device_at(prop->location.id) != nullptr, CUDA_ERROR_INVALID_DEVICE);
  REQUIRE(prop->allocFlags.gpuDirectRDMACapable == 0 || rdma_capable(), CUDA_ERROR_INVALID_VALUE);
  REQUIRE((prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0,
          CUDA_ERROR_NOT_SUPPORTED);
  return CUDA_SUCCESS;
}

}  // namespace

bool is_rdma_capable(u64 handle) {
  std::lock_guard lock(mutex);
  Physical *p = find(handle);
  return p != nullptr && p->prop.allocFlags.gpuDirectRDMACapable != 0;
}

u64 handle_types(u64 handle) {
  std::lock_guard lock(mutex);
  Physical *p = find(handle);
  return p == nullptr ? 0 : p->prop.requestedHandleTypes;
}

UniqueFd export_physical_memory(u64 handle) {
  std::lock_guard lock(mutex);
  Physical *p = find(handle);
  if (p == nullptr || p->prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE) return {};
  share(*p);
  return UniqueFd(fcntl(p->fd.get(), F_DUPFD_CLOEXEC, 0));
}

CUresult import_physical_memory(UniqueFd fd, u64 bytes, int device,
                                CUmemGenericAllocationHandle *out) {
  auto p = std::make_unique<Physical>();
  p->fd = std::move(fd);
  p->bytes = bytes;
  p->imported = true;
  p->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p->prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  p->prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  std::lock_guard lock(mutex);
  share(*p);
  *out = process().next_id++;
  physicals()[*out] = std::move(p);
  return CUDA_SUCCESS;
}

bool maps_imported_memory() {
  std::lock_guard lock(mutex);
  return std::ranges::any_of(physicals(), [](auto &entry) {
    return entry.second->imported && entry.second->mappings > 0;
  });
}

void leave_physical_memory_to_parent() {
  for (auto &[handle, p] : physicals()) p->fd.reset();
}

Result<> save_physical_memory() {
  std::lock_guard lock(mutex);
  for (auto &[handle, p] : physicals()) {
    if (p->imported) continue;
    p->saved.resize(p->bytes);
    if (pread(p->fd.get(), p->saved.data(), p->bytes, 0) != static_cast<ssize_t>(p->bytes))
      return fail_errno("cannot read device memory");
  }
  for (auto &[handle, p] : physicals()) {
    if (p->imported) continue;
    give_back(*p);
    p->fd.reset();
  }
  return {};
}

Result<> restore_physical_memory() {
  std::lock_guard lock(mutex);
  for (auto &[handle, p] : physicals()) {
    if (p->imported) continue;
    if (!process().budget->take(device_of(*p), p->bytes) || !open_memory(*p))
      return fail("the device has too little free memory to restore the process");
    CKPT_CHECK(write_all(p->fd.get(), p->saved));
    p->saved = {};
    if (!process().memory->remap(handle, p->fd.get()))
      return fail_errno("cannot map device memory again");
  }
  return {};
}

}  // namespace ckpt::softcuda::driver

using namespace ckpt;
using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                                    CUmemAllocationGranularity_flags) {
  CALL_INITIALISED();
  REQUIRE(bytes != nullptr, CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(check_prop(prop));
  *bytes = kGranuleBytes;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align,
                                          CUdeviceptr at, unsigned long long flags) {
  CALL_INITIALISED();
  REQUIRE(out != nullptr && bytes > 0 && bytes % kGranuleBytes == 0 && flags == 0,
          CUDA_ERROR_INVALID_VALUE);
  REQUIRE((align & (align - 1)) == 0, CUDA_ERROR_INVALID_VALUE);
  std::optional<u64> base = process().memory->reserve(bytes, align, at);
  REQUIRE(base, CUDA_ERROR_OUT_OF_MEMORY);
  *out = *base;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes) {
  CALL_INITIALISED();
  return process().memory->unreserve(p, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTCUDA_API CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                                  const CUmemAllocationProp *prop, unsigned long long flags) {
  CALL_INITIALISED();
  REQUIRE(out != nullptr && bytes > 0 && bytes % kGranuleBytes == 0 && flags == 0,
          CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(check_prop(prop));
  auto p = std::make_unique<Physical>();
  p->bytes = bytes;
  p->prop = *prop;
  REQUIRE(process().budget->take(device_of(*p), bytes), CUDA_ERROR_OUT_OF_MEMORY);
  if (!open_memory(*p) || !leave_dirt(*p)) {
    process().budget->give(device_of(*p), bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::lock_guard lock(mutex);
  *out = process().next_id++;
  physicals()[*out] = std::move(p);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  CALL_INITIALISED();
  std::lock_guard lock(mutex);
  Physical *p = find(handle);
  REQUIRE(p != nullptr && p->handles > 0, CUDA_ERROR_INVALID_VALUE);
  --p->handles;
  drop_if_unused(handle);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset,
                               CUmemGenericAllocationHandle handle, unsigned long long flags) {
  CALL_INITIALISED();
  std::lock_guard lock(mutex);
  Physical *p = find(handle);
  REQUIRE(p != nullptr && flags == 0 && offset == 0 && bytes > 0 && bytes % kGranuleBytes == 0 &&
              bytes <= p->bytes,
          CUDA_ERROR_INVALID_VALUE);
  REQUIRE(process().memory->map(at, bytes, p->fd.get(), offset, device_of(*p), handle),
          CUDA_ERROR_INVALID_VALUE);
  ++p->mappings;
  return CUDA_SUCCESS;
}

// Waits for running work, which may use the memory.
SOFTCUDA_API CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  FAIL_IF_ORDERED("cuMemUnmap");
  CALL_INITIALISED();
  REQUIRE(!strict() || process().memory->in_one_reservation(at, bytes), CUDA_ERROR_INVALID_VALUE);
  for (Context *c : process().contexts.all()) c->synchronize();
  std::lock_guard lock(mutex);
  std::vector<u64> handles;
  for (const Allocation &a : process().memory->all())
    if (a.kind == MemoryKind::Mapping && a.base >= at && a.base < at + bytes)
      handles.push_back(a.physical);
  REQUIRE(!handles.empty() && process().memory->unmap(at, bytes), CUDA_ERROR_INVALID_VALUE);
  for (u64 handle : handles) {
    --find(handle)->mappings;
    drop_if_unused(handle);
  }
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access,
                                     size_t n) {
  CALL_INITIALISED();
  REQUIRE(access != nullptr && n > 0, CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < n; ++i) {
    REQUIRE(access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                device_at(access[i].location.id) != nullptr,
            CUDA_ERROR_INVALID_DEVICE);
    bool write = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    bool read = write || access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
    REQUIRE(process().memory->set_access(at, bytes, static_cast<u32>(access[i].location.id), read,
                                         write),
            CUDA_ERROR_INVALID_VALUE);
  }
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                                     CUdeviceptr p) {
  CALL_INITIALISED();
  REQUIRE(flags != nullptr && location != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::optional<Allocation> a = process().memory->find(p);
  REQUIRE(a && a->kind == MemoryKind::Mapping && device_at(location->id) != nullptr,
          CUDA_ERROR_INVALID_VALUE);
  u32 bit = 1u << location->id;
  *flags = (a->writers & bit)   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : (a->readers & bit) ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                             CUmemGenericAllocationHandle handle) {
  CALL_INITIALISED();
  std::lock_guard lock(mutex);
  Physical *p = find(handle);
  REQUIRE(prop != nullptr && p != nullptr, CUDA_ERROR_INVALID_VALUE);
  *prop = p->prop;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out,
                                                  void *address) {
  CALL_INITIALISED();
  std::lock_guard lock(mutex);
  std::optional<Allocation> a = process().memory->find(reinterpret_cast<u64>(address));
  REQUIRE(out != nullptr && a && a->kind == MemoryKind::Mapping, CUDA_ERROR_INVALID_VALUE);
  ++find(a->physical)->handles;
  *out = a->physical;
  return CUDA_SUCCESS;
}
