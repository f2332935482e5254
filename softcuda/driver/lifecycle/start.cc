// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/lifecycle/start.h"

#include <pthread.h>

#include <cstdlib>

#include "softcuda/broker/away.h"
#include "softcuda/driver/lifecycle/checkpoint.h"
#include "softcuda/driver/memory/vmm.h"
#include "softcuda/driver/state/device_ranges.h"
#include "softcuda/driver/state/process.h"
#include "softcuda/driver/state/strict.h"
#include "softcuda/driver/state/visible_devices.h"

namespace ckpt::softcuda::driver {
namespace {

// Contexts, threads and the broker's socket do not survive a fork. Device memory is files in memory
// here, and must not be in the child: on a GPU it is not in the process at all. The mappings and
// descriptors of the device stay (device_ranges.h).
void disable_in_child() {
  process().initialised = CUDA_ERROR_NOT_INITIALIZED;
  if (process().memory) process().memory->leave_to_parent();
  leave_physical_memory_to_parent();
  g_driver_away = false;
  process().devices.clear();
  broker::Client::close_in_child();
}

CUresult open_devices() {
  Process &p = process();
  Result<std::unique_ptr<broker::Client>> client = broker::Client::connect();
  if (!client) {
    warn("cannot start the software device: " + client.error().text());
    return CUDA_ERROR_NO_DEVICE;
  }
  std::vector<u32> places = visible_devices((*client)->devices());
  (*client)->remap(places);
  for (u32 place : places) {
    const broker::DeviceInfo &info = (*client)->devices()[place];
    Device &d = *p.devices.emplace_back(std::make_unique<Device>());
    d.index = static_cast<int>(p.devices.size() - 1);
    d.name = info.name;
    d.total_bytes = info.total_bytes;
    std::memcpy(d.uuid.bytes, info.uuid.data(), sizeof d.uuid.bytes);
  }
  if (Result<> r = (*client)->start_serving(&answer_order); !r) {
    warn("cannot start the software device: " + r.error().text());
    return CUDA_ERROR_NO_DEVICE;
  }
  (*client)->on_refusal = &warn;
  p.budget = std::move(*client);
  const char *base = std::getenv("CKPT_SOFTCUDA_BASE");
  p.memory = std::make_unique<Memory>(*p.budget, strict(),
                                      base ? std::strtoull(base, nullptr, 16) : kFirstAddress);
  map_device_ranges();
  return p.devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

}  // namespace

CUresult initialise() {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  Process &p = process();
  if (p.initialised != CUDA_ERROR_NOT_INITIALIZED) return p.initialised;
  static bool once = false;
  // CUDA cannot be used in a forked child.
  if (once) return CUDA_ERROR_NOT_INITIALIZED;
  once = true;
  if (const char *sm = std::getenv("CKPT_SOFTCUDA_SM"))
    p.sm = static_cast<u32>(std::strtoul(sm, nullptr, 10));
  Result<std::optional<Model>> model = model_of_environment();
  if (!model) {
    warn(model.error().text());
    return p.initialised = CUDA_ERROR_INVALID_VALUE;
  }
  p.model = *model;
  pthread_atfork(nullptr, nullptr, disable_in_child);
  return p.initialised = open_devices();
}

}  // namespace ckpt::softcuda::driver
