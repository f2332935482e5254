// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/ipc_memory.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "libckpt-cuda/memory/addresses.h"
#include "libckpt-cuda/memory/ipc_handle.h"

namespace ckpt::cuda {
namespace {

using protocol::ShareState;

// What the program's handle contains.
struct HandleFields {
  u64 magic;
  ShareId id;
  u64 offset;  // of the allocation in its block
  u64 bytes;
};
constexpr u64 kMagic = 0x6b63'7074'6970'6331;

// A process that opens a handle may have returned from a checkpoint before the exporter has.
constexpr std::chrono::seconds kOpenPatience{60};
constexpr std::chrono::milliseconds kOpenPause{10};

std::optional<CUdevice> device_with(const std::string &uuid) {
  int count = 0;
  driver().cuDeviceGetCount(&count);
  CUdevice device = 0;
  for (int i = 0; i < count; i++)
    if (driver().cuDeviceGet(&device, i) == CUDA_SUCCESS && uuid_of(device) == uuid) return device;
  return {};
}

AccessList access_to(CUdevice device) {
  AccessList list;
  for (CUdevice d : devices_that_reach(device)) list.push_back(access_from(d, true));
  return list;
}

}  // namespace

IpcMemory &ipc_memory() {
  static IpcMemory *const kMemory = new IpcMemory;
  return *kMemory;
}

// ---- the exporter

// With the mutex of Memory held.
CUresult IpcMemory::share(const Allocation &a, const Memory::BlockView &block, ShareId &out) {
  std::lock_guard lock(mutex_);
  if (auto known = exports_.find(a.block); known != exports_.end()) {
    out = known->second.id;
    return CUDA_SUCCESS;
  }
  auto offer_it = [&]() -> Result<> {
    CKPT_TRY(out, new_share_id());
    ShareLink link;
    return IpcMemory::offer(link, out, {block.bytes, uuid_of(a.device), -1, true, true},
                            block.physical);
  };
  if (Result<> offered = offer_it(); !offered) {
    log::error(std::move(offered).error().in("device memory cannot be shared"));
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  exports_[a.block] = {out, block.bytes, a.device, Phase::Used};
  return CUDA_SUCCESS;
}

CUresult IpcMemory::get_handle(CUdeviceptr p, CUipcMemHandle &out) {
  std::optional<Allocation> a = memory().find(p);
  if (!a) return CUDA_ERROR_INVALID_VALUE;
  HandleFields fields{kMagic, {}, a->base - a->block, a->bytes};
  CUresult e = CUDA_ERROR_INVALID_VALUE;
  memory().with_block(a->block,
                      [&](const Memory::BlockView &block) { e = share(*a, block, fields.id); });
  if (e == CUDA_SUCCESS) out = ipc_handle_of<CUipcMemHandle>(fields);
  return e;
}

bool IpcMemory::is_exported(u64 base) const {
  std::lock_guard lock(mutex_);
  return exports_.contains(base);
}

// The importers keep the memory.
void IpcMemory::block_dropped(u64 base) {
  std::lock_guard lock(mutex_);
  auto gone = exports_.extract(base);
  if (gone.empty()) return;
  if (Result<> told = ShareLink().done(gone.mapped().id); !told)
    log::debug("shared device memory is not forgotten: {}", told.error().what);
}

// ---- the importer

// The address of a piece that is mapped. Only one context may open it, as one of each device may
// with a driver.
CUresult IpcMemory::open_again(const ShareId &id, const ContextInfo &context, u64 offset, u64 bytes,
                               CUdeviceptr &out) {
  auto it = imports_.find(id);
  if (it == imports_.end()) return CUDA_ERROR_NOT_READY;
  Import &import = it->second;
  if (import.context.handle != context.handle) return CUDA_ERROR_INVALID_CONTEXT;
  if (offset >= import.block.bytes || bytes > import.block.bytes - offset)
    return CUDA_ERROR_INVALID_HANDLE;
  out = import.block.base + offset;
  import.opened[out]++;
  import.sizes[out] = bytes;
  return CUDA_SUCCESS;
}

CUresult IpcMemory::import_piece(const ShareId &id, const ContextInfo &context,
                                 SharedPiece &piece) {
  std::optional<CUdevice> device = device_with(piece.device);
  if (!device) {
    log::warn("memory of the device {} cannot be opened by a process that does not see this device",
              piece.device);
    return CUDA_ERROR_INVALID_DEVICE;
  }
  if (*device != context.device && !reaches(context.device, *device))
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  Import import;
  import.block = {0, piece.bytes, *device, 0, false};
  import.context = context;
  if (CUresult e = addresses().take(*device, piece.bytes, import.block.base); e != CUDA_SUCCESS)
    return e;
  if (Result<> mapped = map_import(import, piece.memory); !mapped) {
    log::error(std::move(mapped).error());
    addresses().give(import.block.base, piece.bytes);
    return CUDA_ERROR_MAP_FAILED;
  }
  imports_[id] = std::move(import);
  imported_++;
  return CUDA_SUCCESS;
}

CUresult IpcMemory::open_handle(const CUipcMemHandle &handle, const ContextInfo &context,
                                CUdeviceptr &out) {
  auto f = ipc_fields_of<HandleFields>(handle, kMagic);
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  for (auto end = Clock::now() + kOpenPatience;; std::this_thread::sleep_for(kOpenPause)) {
    std::lock_guard lock(mutex_);
    auto is_ours = [&](const auto &e) { return e.second.id == f->id; };
    if (std::ranges::any_of(exports_, is_ours)) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult e = open_again(f->id, context, f->offset, f->bytes, out);
        e != CUDA_ERROR_NOT_READY)
      return e;
    SharedPiece piece;
    ShareLink link;
    Result<ShareState> state = link.want(f->id, false, piece);
    if (state && *state == ShareState::Pending && Clock::now() < end) continue;
    if (!state || *state != ShareState::There) return CUDA_ERROR_INVALID_HANDLE;
    CUresult e = import_piece(f->id, context, piece);
    if (e == CUDA_SUCCESS) e = open_again(f->id, context, f->offset, f->bytes, out);
    if (auto it = imports_.find(f->id); it != imports_.end() && it->second.opened.empty())
      drop_import(it);
    else if (it == imports_.end())
      (void)link.done(f->id);
    return e;
  }
}

// The last close waits for running work, which may use the memory.
CUresult IpcMemory::close_handle(CUdeviceptr p) {
  std::lock_guard lock(mutex_);
  auto it = std::ranges::find_if(imports_, [&](auto &i) { return i.second.opened.contains(p); });
  if (it == imports_.end()) return CUDA_ERROR_INVALID_VALUE;
  Import &import = it->second;
  if (--import.opened[p] > 0) return CUDA_SUCCESS;
  import.opened.erase(p);
  import.sizes.erase(p);
  CurrentContext current(import.context.handle);
  CUresult e = driver().cuCtxSynchronize();
  if (import.opened.empty()) drop_import(it);
  return e;
}

Result<> IpcMemory::map_import(Import &import, const UniqueFd &memory) {
  CurrentContext current(import.context.handle);
  CKPT_TRY(import.block.physical, import_physical(memory));
  return map_physical(import);
}

Result<> IpcMemory::map_physical(Import &import) {
  Block &b = import.block;
  CUresult e = driver().cuMemMap(b.base, b.bytes, 0, b.physical, 0);
  b.mapped = e == CUDA_SUCCESS;
  if (e == CUDA_SUCCESS) e = give_access(b.base, b.bytes, access_to(b.device));
  if (e != CUDA_SUCCESS) unmap_import(import);
  return as_result(e, "map shared device memory");
}

CUresult IpcMemory::unmap_import(Import &import) {
  Block &b = import.block;
  CUresult e = b.mapped ? driver().cuMemUnmap(b.base, b.bytes) : CUDA_SUCCESS;
  if (e != CUDA_SUCCESS) return e;
  b.mapped = false;
  release_physical(std::exchange(b.physical, 0));
  return e;
}

// Addresses that are still mapped can serve nothing else.
void IpcMemory::drop_import(Imports::iterator it) {
  const Block &b = it->second.block;
  if (CUresult e = unmap_import(it->second); e == CUDA_SUCCESS)
    addresses().give(b.base, b.bytes);
  else
    log::warn("memory of another process stays mapped: cuMemUnmap fails with {}", error_name(e));
  if (Result<> told = ShareLink().done(it->first); !told)
    log::debug("shared device memory is not forgotten: {}", told.error().what);
  imports_.erase(it);
  imported_--;
}

std::optional<Allocation> IpcMemory::find(u64 address) const {
  if (!any_imports()) return {};
  std::lock_guard lock(mutex_);
  for (auto &[id, import] : imports_) {
    auto it = import.sizes.upper_bound(address);
    if (it == import.sizes.begin()) continue;
    auto [base, bytes] = *--it;
    if (address - base < bytes)
      return Allocation{base,
                        bytes,
                        import.block.base,
                        import.block.base,
                        import.context.handle,
                        import.block.device,
                        false};
  }
  return {};
}

void IpcMemory::release_context(CUcontext context) {
  std::lock_guard lock(mutex_);
  for (auto it = imports_.begin(); it != imports_.end();) {
    auto next = std::next(it);
    if (it->second.context.handle == context) drop_import(it);
    it = next;
  }
}

}  // namespace ckpt::cuda
