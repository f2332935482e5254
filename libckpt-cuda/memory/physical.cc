// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/physical.h"

#include <atomic>
#include <cstdlib>
#include <map>

#include "agent/protocol.h"
#include "common/managed/messages.h"
#include "libckpt-cuda/memory/copier.h"

namespace ckpt::cuda {
namespace {

constexpr auto kShareable = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

std::map<u64, Physical> &returned() {
  static auto *const kReturned = new std::map<u64, Physical>;
  return *kReturned;
}

bool can_share(CUdevice device) {
  int can = 0;
  driver().cuDeviceGetAttribute(
      &can, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device);
  return can != 0;
}

CUresult create(Physical &out, u64 bytes, const CUmemAllocationProp &prop) {
  CUresult e = driver().cuMemCreate(&out, bytes, &prop, 0);
  if (e == CUDA_ERROR_OUT_OF_MEMORY && wait_for_copier())
    e = driver().cuMemCreate(&out, bytes, &prop, 0);
  return e;
}

}  // namespace

const char *reason_against_sharing() {
  static const char *const kReason = []() -> const char * {
    if (::secure_getenv(protocol::kSessionVariable) == nullptr)
      return "the program was not started by ckpt-run";
    if (::secure_getenv(managed::kSocketVariable) != nullptr)
      return "the Manager evicts each process by itself (ckpt-run --managed), and memory that "
             "another process uses cannot be";
    if (is_shareable_wanted())
      return "device memory that has an owner (ckpt-run --device-owner) cannot be shared";
    return nullptr;
  }();
  return kReason;
}

bool is_shareable_wanted() {
  static const bool kWanted = std::getenv("CKPT_CUDA_DEVICE_OWNER") != nullptr;
  return kWanted;
}

CUmemAllocationProp memory_of(CUdevice device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  return prop;
}

// Memory that InfiniBand and other devices can register (GPUDirect RDMA), where the device can give
// such memory: memory of cuMemCreate has that property only on request, that of a driver's
// cuMemAlloc always (NVIDIA/gdrcopy#257, openucx/ucx#10007).
CUmemAllocationProp memory_for_block(CUdevice device) {
  CUmemAllocationProp prop = memory_of(device);
  int capable = 0;
  driver().cuDeviceGetAttribute(
      &capable, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device);
  prop.allocFlags.gpuDirectRDMACapable = capable != 0;
  return prop;
}

// Where the system refuses the handles (containers may), memory without one is as good otherwise.
CUresult make_physical(u64 bytes, const CUmemAllocationProp &prop, Physical &out) {
  CUmemAllocationProp shared = prop;
  if (is_shareable_wanted() && can_share(prop.location.id))
    shared.requestedHandleTypes =
        static_cast<CUmemAllocationHandleType>(prop.requestedHandleTypes | kShareable);
  CUresult e = create(out, bytes, shared);
  bool refused = e != CUDA_SUCCESS && e != CUDA_ERROR_OUT_OF_MEMORY;
  if (!refused || shared.requestedHandleTypes == prop.requestedHandleTypes) return e;
  return create(out, bytes, prop);
}

CUresult make_physical_again(u64 key, u64 bytes, const CUmemAllocationProp &prop, Physical &out) {
  auto found = returned().extract(key);
  if (found.empty()) return make_physical(bytes, prop, out);
  out = found.mapped();
  return CUDA_SUCCESS;
}

// A refusal is remembered, because each one costs a call.
CUresult make_for_block(u64 key, u64 bytes, CUdevice device, Physical &out) {
  static std::atomic<bool> refused{false};
  CUmemAllocationProp plain = memory_for_block(device), shared = plain;
  if (reason_against_sharing() != nullptr || refused || !can_share(device))
    return make_physical_again(key, bytes, plain, out);
  shared.requestedHandleTypes = kShareable;
  CUresult e = make_physical_again(key, bytes, shared, out);
  if (e == CUDA_SUCCESS || e == CUDA_ERROR_OUT_OF_MEMORY) return e;
  refused = true;
  return make_physical(bytes, plain, out);
}

void put_returned(u64 key, Physical physical) {
  if (!returned().emplace(key, physical).second) release_physical(physical);
}

void drop_returned() {
  for (auto &[key, physical] : returned()) release_physical(physical);
  returned().clear();
}

void release_physical(Physical handle) {
  if (handle != 0) driver().cuMemRelease(handle);
}

CUmemAccessDesc access_from(CUdevice device, bool allowed) {
  CUmemAccessDesc access{};
  access.location = memory_of(device).location;
  access.flags = allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return access;
}

void change_access(AccessList &list, const CUmemAccessDesc &change) {
  std::erase_if(list, [&](const CUmemAccessDesc &a) {
    return a.location.type == change.location.type && a.location.id == change.location.id;
  });
  if (change.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) list.push_back(change);
}

CUresult give_access(u64 base, u64 bytes, std::span<const CUmemAccessDesc> access) {
  if (access.empty()) return CUDA_SUCCESS;
  return driver().cuMemSetAccess(base, bytes, access.data(), access.size());
}

}  // namespace ckpt::cuda
