// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/lifecycle/requirements.h"

#include <array>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "driver-checkpoint/uuid.h"
#include "remote/cuda/client/copies/arrays.h"
#include "remote/cuda/client/memory/memory.h"
#include "remote/cuda/client/memory/shared_memory.h"
#include "remote/cuda/client/memory/virtual_memory.h"

namespace ckpt::remote::cuda {
namespace {

using nlohmann::json;

KnownDevice read_device(CUdevice device) {
  KnownDevice d;
  std::array<char, 256> name{};
  CUuuid uuid{};
  size_t bytes = 0;
  int major = 0, minor = 0;
  if (entry_cuDeviceGetName(name.data(), name.size(), device) == CUDA_SUCCESS) d.name = name.data();
  if (entry_cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS) d.uuid = ckpt::cuda::uuid_text(uuid);
  if (entry_cuDeviceTotalMem_v2(&bytes, device) == CUDA_SUCCESS) d.memory_bytes = bytes;
  if (entry_cuDeviceComputeCapability(&major, &minor, device) == CUDA_SUCCESS)
    d.capability = 10 * major + minor;
  for (const Ledger::Object &c : ledger().objects(Kind::Context))
    d.used = d.used || ledger().device_of(c.number) == device;
  for (const Memory::Block &b : memory().blocks())
    if (b.device == device) d.bytes += b.bytes;
  for (const VirtualMemory::Live &m : virtual_memory().live())
    if (m.device == device) d.bytes += m.bytes;
  for (const LiveArray &a : live_arrays())
    if (ledger().device_of(a.context) == device) d.bytes += a.shape.bytes();
  d.used = d.used || d.bytes > 0;
  return d;
}

std::string why_not_split() {
  if (memory().has_host_pages() || shared_memory().any())
    return "the program has managed or mapped memory";
  return why_no_driver_here();
}

}  // namespace

std::string why_no_driver_here() {
  const char *set = std::getenv("CKPT_CUDA_NATIVE");
  if (set && std::string_view(set) == "no") return "CKPT_CUDA_NATIVE is no";
  return memory().has_host_pages()
             ? "the program has managed or mapped memory at addresses of the device"
             : "";
}

std::vector<KnownDevice> read_devices() {
  int n = 0;
  std::vector<KnownDevice> all;
  if (entry_cuDeviceGetCount(&n) != CUDA_SUCCESS) return all;
  for (int i = 0; i < n; i++) all.push_back(read_device(i));
  return all;
}

std::string requirements_as_json(const std::vector<KnownDevice> &devices) {
  json list = json::array(), code = json::array();
  for (size_t i = 0; i < devices.size(); i++) {
    const KnownDevice &d = devices[i];
    list.push_back({{"number", i},
                    {"name", d.name},
                    {"uuid", d.uuid},
                    {"memory_bytes", d.memory_bytes},
                    {"capability", d.capability},
                    {"used", d.used},
                    {"bytes", d.bytes}});
  }
  for (const Ledger::Object &o : ledger().objects())
    if (o.code && !o.code->needs().targets.empty())
      code.push_back({{"kernel", o.code->needs().kernel}, {"targets", o.code->needs().targets}});
  json all = {{"forwarded", true}, {"devices", list}, {"code", code}, {"split", why_not_split()}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ckpt::remote::cuda
