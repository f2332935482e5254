// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/proxy/real_driver.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "common/base/gpu.h"
#include "common/base/installation.h"
#include "driver-checkpoint/uuid.h"
#include "libckpt-cuda/proxy/nvml.h"

namespace ckpt::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char *kSoftware = "softcuda";

// The driver that the loader finds. It stays loaded for list_devices().
std::string installed_driver() {
  void *handle = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  link_map *map = nullptr;
  if (handle == nullptr || ::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return {};
  std::error_code ec;
  return fs::canonical(map->l_name, ec).string();
}

std::string software_driver() {
  std::error_code ec;
  fs::path here = own_folder().parent_path();
  for (const fs::path &p : {here / kSoftware / "driver", installed_libdir() / kSoftware})
    if (fs::exists(p / "libcuda.so.1", ec)) return (p / "libcuda.so.1").string();
  return {};
}

template <class F>
F entry(void *handle, const char *name) {
  return reinterpret_cast<F>(::dlsym(handle, name));
}

// For where NVML does not tell. The driver tells free memory only inside a context, which itself
// takes memory, so this is less than a program without one finds.
unsigned long long free_in_context(void *handle, CUdevice device) {
  auto retain = entry<PFN_cuDevicePrimaryCtxRetain_v7000>(handle, "cuDevicePrimaryCtxRetain");
  auto release =
      entry<PFN_cuDevicePrimaryCtxRelease_v11000>(handle, "cuDevicePrimaryCtxRelease_v2");
  auto set = entry<PFN_cuCtxSetCurrent_v4000>(handle, "cuCtxSetCurrent");
  auto info = entry<PFN_cuMemGetInfo_v3020>(handle, "cuMemGetInfo_v2");
  CUcontext context = nullptr;
  size_t free_bytes = 0, total = 0;
  if (!retain || !release || !set || !info || retain(&context, device) != CUDA_SUCCESS) return 0;
  if (set(context) == CUDA_SUCCESS) info(&free_bytes, &total);
  set(nullptr);
  release(device);
  return free_bytes;
}

RealDevice describe(void *handle, CUdevice d) {
  auto name = entry<PFN_cuDeviceGetName_v2000>(handle, "cuDeviceGetName");
  auto total = entry<PFN_cuDeviceTotalMem_v3020>(handle, "cuDeviceTotalMem_v2");
  auto attribute = entry<PFN_cuDeviceGetAttribute_v2000>(handle, "cuDeviceGetAttribute");
  auto uuid_of = entry<PFN_cuDeviceGetUuid_v11040>(handle, "cuDeviceGetUuid_v2");
  std::array<char, 256> text{};
  size_t bytes = 0;
  CUuuid uuid{};
  int major = 0, minor = 0;
  if (name) name(text.data(), text.size() - 1, d);
  if (total) total(&bytes, d);
  if (uuid_of) uuid_of(&uuid, d);
  if (attribute) {
    attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d);
    attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d);
  }
  return {text.data(), uuid_text(uuid), bytes, 0, 10 * major + minor};
}

}  // namespace

RealDriver find_driver() {
  if (const char *set = std::getenv("CKPT_CUDA_DRIVER"); set != nullptr && *set == '/')
    return {set, fs::path(set).string().find(fmt::format("/{}/", kSoftware)) != std::string::npos};
  if (has_nvidia_gpu())
    if (std::string path = installed_driver(); !path.empty()) return {path, false};
  std::string path = software_driver();
  return {path, !path.empty()};
}

// The software device's NVML is not where the loader looks. Loaded once, it is found by its name.
void load_nvml_of(const RealDriver &driver) {
  if (!driver.software) return;
  fs::path here = fs::path(driver.path).parent_path();
  for (const fs::path &folder : {here.parent_path() / "nvml", here})
    if (::dlopen((folder / "libnvidia-ml.so.1").c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;
}

Result<std::vector<RealDevice>> list_devices(const RealDriver &driver, bool with_free) {
  std::vector<RealDevice> all;
  if (driver.path.empty()) return all;
  void *handle = ::dlopen(driver.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail("cannot load the CUDA driver {}: {}", driver.path, ::dlerror());
  auto init = entry<PFN_cuInit_v2000>(handle, "cuInit");
  auto count = entry<PFN_cuDeviceGetCount_v2000>(handle, "cuDeviceGetCount");
  auto get = entry<PFN_cuDeviceGet_v2000>(handle, "cuDeviceGet");
  if (!init || !count || !get)
    return fail("{} is not a CUDA driver: it lacks cuInit, cuDeviceGetCount or cuDeviceGet",
                driver.path);
  load_nvml_of(driver);
  std::vector<GpuMemory> known = with_free ? ask_nvml() : std::vector<GpuMemory>();
  int n = 0;
  if (init(0) != CUDA_SUCCESS || count(&n) != CUDA_SUCCESS) return all;
  for (int i = 0; i < n; i++) {
    CUdevice d = 0;
    if (get(&d, i) != CUDA_SUCCESS) continue;
    all.push_back(describe(handle, d));
    if (!with_free) continue;
    auto gpu = std::ranges::find(known, all.back().uuid, &GpuMemory::uuid);
    all.back().free_bytes = gpu != known.end() ? gpu->free_bytes : free_in_context(handle, d);
  }
  return all;
}

int driver_version(const RealDriver &driver) {
  void *handle = ::dlopen(driver.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return 0;
  int version = 0;
  auto get = entry<PFN_cuDriverGetVersion_v2020>(handle, "cuDriverGetVersion");
  if (get) get(&version);
  return version;
}

}  // namespace ckpt::cuda
