// SPDX-License-Identifier: Apache-2.0
//
// cuGetProcAddress, with the table of all entries.
#include <dlfcn.h>

#include <algorithm>

#include "cuda/entries.h"
#include "fatbin/static_runtime.h"
#include "softcuda/driver/lifecycle/future.h"
#include "softcuda/driver/state/process.h"
#include "softcuda/driver/state/strict.h"

namespace {

using ckpt::api::CudaId, ckpt::api::kNewestVersion;

#define CU_ENTRY(name, version, symbol, per_thread) \
  extern "C" CUresult softcuda_entry_##symbol() asm(#symbol);
#include "cuda/entries.api"
#undef CU_ENTRY

void *const kAddresses[] = {
#define CU_ENTRY(name, version, symbol, per_thread) \
  reinterpret_cast<void *>(&softcuda_entry_##symbol),
#include "cuda/entries.api"
#undef CU_ENTRY
};

// nullptr: no form is as old as the program and this driver.
void *address_of(const char *name, int version, bool per_thread) {
  version = std::min(version, ckpt::softcuda::driver::driver_version());
  CudaId id = ckpt::api::find_cuda_entry(name, version, per_thread);
  return id == CudaId::Count ? nullptr : kAddresses[static_cast<size_t>(id)];
}

}  // namespace

SOFTCUDA_API CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                          cuuint64_t flags,
                                          CUdriverProcAddressQueryResult *result) {
  constexpr cuuint64_t kKnown =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  REQUIRE(symbol != nullptr && function != nullptr && (flags & ~kKnown) == 0 && flags != kKnown,
          CUDA_ERROR_INVALID_VALUE);
  REQUIRE(!ckpt::softcuda::driver::is_away(), CUDA_ERROR_DEVICE_UNAVAILABLE);
  if (version > kNewestVersion && ckpt::softcuda::driver::driver_version() > kNewestVersion)
    if (void *found = ckpt::softcuda::driver::future_entry(symbol)) {
      if (result != nullptr) *result = CU_GET_PROC_ADDRESS_SUCCESS;
      return *function = found, CUDA_SUCCESS;
    }
  *function = address_of(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  if (result != nullptr)
    *result = *function != nullptr                  ? CU_GET_PROC_ADDRESS_SUCCESS
              : ckpt::api::knows_cuda_entry(symbol) ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                                    : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

#undef cuGetProcAddress
SOFTCUDA_API CUresult cuGetProcAddress(const char *symbol, void **function, int version,
                                       cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

namespace {

// The file of the code that contains `address`, if NVIDIA's static runtime is in it.
std::string file_with_static_runtime(const void *address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  return ckpt::fatbin::refuse_static_runtime(info.dli_fname) ? std::string() : info.dli_fname;
}

void report_private_interface(const void *caller) {
  static std::mutex mutex;
  static std::set<std::string> *const kReported = new std::set<std::string>;
  std::string file = file_with_static_runtime(caller);
  std::lock_guard lock(mutex);
  if (file.empty() || !kReported->insert(file).second) return;
  ckpt::softcuda::driver::warn(
      file +
      " contains NVIDIA's static CUDA runtime, which runs on NVIDIA's driver only: its calls "
      "fail here. If it is yours, link it with -cudart shared; NVIDIA's own libraries that "
      "contain this runtime (cuBLAS, cuFFT, cuDNN …) need a GPU");
}

}  // namespace

// These tables are private interfaces of NVIDIA's driver. A library with the static runtime may
// have been loaded after softcuda-run examined the program.
SOFTCUDA_API CUresult cuGetExportTable(const void **table, const CUuuid *) {
  report_private_interface(__builtin_return_address(0));
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
