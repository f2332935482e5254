// SPDX-License-Identifier: Apache-2.0
//
// The start, and what devices say of themselves: asked once, as it never changes.
#include <algorithm>
#include <map>

#include "agent/participant/participant.h"
#include "common/base/log.h"
#include "remote/cuda/client/code/placed_code.h"
#include "remote/cuda/client/lifecycle/participant.h"
#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {
namespace {

struct Start {
  std::mutex mutex;
  bool tried = false;
  CUresult result = CUDA_ERROR_NOT_INITIALIZED;
};

CUresult start() {
  CUresult e = CUDA_SUCCESS;
  // Devices of this node are served by a process at first.
  std::optional<OwnDriver::Offer> offer;
  Result<> opened = join_session([&] { return link().open(agent::session_socket(), offer); });
  if (!opened) {
    log::error(std::move(opened.error()).in("the CUDA devices of the other node cannot be used"));
    e = CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  if (opened) {
    link().resume();
    set_ready(code_ended);
  }
  return e;
}

// What a driver and its devices have said.
struct Known {
  std::mutex mutex;
  int version = 0;
  int devices = 0;        // 0: not asked since the last move
  int first_devices = 0;  // when the program first asked
  std::map<std::pair<CUdevice, CUdevice_attribute>, int> attributes;
};
Known &what_is_known() {
  static Known *const kKnown = new Known;
  return *kKnown;
}

// What the device could do only together with the memory of its own node, or with entries that are
// refused here.
bool is_lacking(CUdevice_attribute a) {
  switch (a) {
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: return true;
    default: return false;
  }
}

// More than any node has: lists of the program, and of ours, are as long.
constexpr int kMaxDevices = 1024;

CUresult ask_for_count(int &count) {
  if (CUresult e = ask_cuDeviceGetCount(&count); e != CUDA_SUCCESS) return e;
  if (count >= 0 && count <= kMaxDevices) return CUDA_SUCCESS;
  count = 0;
  return link().malformed();
}

}  // namespace

void forget_what_devices_said() {
  Known &known = what_is_known();
  std::lock_guard lock(known.mutex);
  known.version = known.devices = 0;
  known.attributes.clear();
}

CUresult entry_cuInit(unsigned flags) {
  static Start *const kStart = new Start;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(kStart->mutex);
  if (!std::exchange(kStart->tried, true)) kStart->result = start();
  return kStart->result == CUDA_SUCCESS ? link().lost() : kStart->result;
}

// Programs ask before cuInit, too.
CUresult entry_cuDriverGetVersion(int *version) {
  if (CUresult e = entry_cuInit(0); e != CUDA_SUCCESS) return e;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  Known &known = what_is_known();
  std::lock_guard lock(known.mutex);
  if (known.version == 0)
    if (CUresult e = ask_cuDriverGetVersion(&known.version); e != CUDA_SUCCESS) return e;
  *version = known.version;
  return CUDA_SUCCESS;
}

// A program may have a place for each device in its lists, and shares its variables with all
// devices that it sees. So it never sees more than at first, although a move may offer more.
CUresult entry_cuDeviceGetCount(int *count) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  Known &known = what_is_known();
  std::lock_guard lock(known.mutex);
  if (known.devices == 0)
    if (CUresult e = ask_for_count(known.devices); e != CUDA_SUCCESS) return e;
  if (known.first_devices == 0) known.first_devices = known.devices;
  *count = std::min(known.devices, known.first_devices);
  return CUDA_SUCCESS;
}

CUresult entry_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  Known &known = what_is_known();
  std::lock_guard lock(known.mutex);
  auto found = known.attributes.find({device, attribute});
  if (found == known.attributes.end()) {
    int asked = 0;
    if (CUresult e = ask_cuDeviceGetAttribute(&asked, attribute, device); e != CUDA_SUCCESS)
      return e;
    if (is_lacking(attribute)) asked = 0;
    found = known.attributes.emplace(std::pair(device, attribute), asked).first;
  }
  *value = found->second;
  return CUDA_SUCCESS;
}

// Split devices are those of two nodes, and both are asked.
CUresult entry_cuDeviceGetByPCIBusId(CUdevice *out, const char *id) {
  if (!link().is_split()) return ask_cuDeviceGetByPCIBusId(out, id);
  if (!out || !id) return CUDA_ERROR_INVALID_VALUE;
  for (Site::By by : {Site::By::Own, Site::By::Server}) {
    Writer w;
    Bytes reply;
    put_argument(w, out, 0);
    put_argument(w, id, 0);
    if (link().ask(line_cuDeviceGetByPCIBusId, {by, 0}, {w.bytes()}, &reply) != CUDA_SUCCESS)
      continue;
    if (CUresult e = read_reply(reply, *out); e != CUDA_SUCCESS) return e;
    if (*out >= 0) return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult entry_cuDeviceCanAccessPeer(int *can, CUdevice, CUdevice) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!can) return CUDA_ERROR_INVALID_VALUE;
  *can = 0;
  return CUDA_SUCCESS;
}

// There is no access between devices.
CUresult entry_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute, CUdevice a, CUdevice b) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!value || a == b) return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  return CUDA_SUCCESS;
}

// For a profiler, of which there is none here.
CUresult entry_cuProfilerStart() { return ready(); }
CUresult entry_cuProfilerStop() { return ready(); }

}  // namespace ckpt::remote::cuda
