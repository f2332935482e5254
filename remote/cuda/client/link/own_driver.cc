// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/link/own_driver.h"

#include <algorithm>

#include "common/base/log.h"
#include "driver-checkpoint/checkpoint_entries.h"
#include "driver-checkpoint/driver_checkpoint.h"
#include "driver-checkpoint/forked_child.h"
#include "driver-checkpoint/uuid.h"
#include "remote/cuda/server/driver.h"

namespace ckpt::remote::cuda {
namespace {

const void *file_of(const void *address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// As libckpt-cuda/entry/driver.cc: the driver has our file name and our symbols.
std::string spelled_otherwise(const std::string &path) {
  size_t slash = path.rfind('/');
  return path.substr(0, slash) + "/." + path.substr(slash);
}

void fill_checkpoint_entries(const std::string &path) {
  ckpt::cuda::CheckpointEntries &all = ckpt::cuda::checkpoint_entries();
#define X(symbol, type) \
  all.symbol =          \
      reinterpret_cast<type>(driver().entries[static_cast<size_t>(api::CudaId::id_##symbol)]);
  CKPT_CHECKPOINT_ENTRIES(X)
#undef X
  all.path = path.c_str();
}

// The devices as the driver numbers them.
Result<std::vector<std::string>> uuids() {
  int n = 0;
  std::vector<std::string> all;
  if (!driver().cuDeviceGetUuid_v2 || driver().cuDeviceGetCount(&n) != CUDA_SUCCESS)
    return fail("the driver does not tell its devices");
  for (int i = 0; i < n; i++) {
    CUdevice device = 0;
    CUuuid uuid{};
    if (driver().cuDeviceGet(&device, i) != CUDA_SUCCESS || device != i ||
        driver().cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS)
      return fail("the driver does not tell its devices");
    all.push_back(ckpt::cuda::uuid_text(uuid));
  }
  return all;
}

Result<DeviceNumbers> find_devices(const std::vector<std::string> &wanted) {
  CKPT_TRY(std::vector<std::string> all, uuids());
  std::vector<CUdevice> numbers;
  for (const std::string &uuid : wanted.empty() ? all : wanted) {
    auto found = std::ranges::find(all, uuid);
    if (found == all.end())
      return fail("the driver in the program does not see the device {} (CUDA_VISIBLE_DEVICES)",
                  uuid);
    numbers.push_back(static_cast<CUdevice>(found - all.begin()));
  }
  if (numbers.empty()) return fail("the driver in the program sees no device");
  return DeviceNumbers(std::move(numbers));
}

}  // namespace

OwnDriver &own_driver() {
  static OwnDriver *const kDriver = new OwnDriver;
  return *kDriver;
}

Result<> OwnDriver::load(const std::string &path) {
  CKPT_CHECK(load_driver(spelled_otherwise(path), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
  path_ = path;
  unusable_ = true;
  static const int kHere = 0;
  if (file_of(reinterpret_cast<void *>(driver().cuInit)) == file_of(&kHere))
    return fail("{} is ckpt's own library", path);
  fill_checkpoint_entries(path_);
  if (std::string why = ckpt::cuda::no_driver_checkpoint(); !why.empty()) return fail("{}", why);
  ckpt::cuda::OpensDevices opens;
  if (CUresult e = driver().cuInit(0); e != CUDA_SUCCESS)
    return fail("the CUDA driver does not start in the program: error {}", static_cast<int>(e));
  unusable_ = false;
  return {};
}

Result<DeviceNumbers> OwnDriver::start(const Offer &offer) {
  if (unusable_) return fail("the CUDA driver did not start in the program before");
  if (path_.empty())
    CKPT_CHECK(load(offer.path));
  else if (path_ != offer.path)
    return fail("the program has another driver loaded, {}", path_);
  else
    CKPT_CHECK(ckpt::cuda::driver_restore({}));
  Result<DeviceNumbers> devices = find_devices(offer.devices);
  if (devices) return devices;
  if (Result<> r = park(); !r) log::error(r.error());
  return devices;
}

Result<> OwnDriver::park() {
  CKPT_CHECK(ckpt::cuda::driver_lock());
  return ckpt::cuda::driver_checkpoint();
}

bool OwnDriver::answers_for(std::string_view path) const {
  if (path_.empty()) return false;
  std::string_view file = path.substr(path.rfind('/') + 1);
  bool of_package = file.starts_with("libcuda.so") || file.starts_with("libnvidia");
  return of_package && !file.starts_with("libnvidia-opencl");
}

}  // namespace ckpt::remote::cuda
