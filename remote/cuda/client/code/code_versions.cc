// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/code/code_versions.h"

#include <atomic>
#include <map>

namespace ckpt::remote::cuda {
namespace {

struct VersionTable {
  std::mutex mutex;
  std::atomic<bool> empty{true};  // read for each call with a kernel
  std::map<u64, std::vector<u64>> libraries;
  std::map<std::pair<u64, u64>, u64> kernels;  // by kernel and version of its library
};
VersionTable &version_table() {
  static VersionTable *const kTable = new VersionTable;
  return *kTable;
}

CUdevice device_here() { return ledger().device_of(current_context()).value_or(0); }

u64 find_kernel(u64 kernel, u64 version) {
  const char *name = nullptr;
  CUkernel found = nullptr;
  auto handle = [](u64 number) { return reinterpret_cast<CUkernel>(number); };
  if (entry_cuKernelGetName(&name, handle(kernel)) != CUDA_SUCCESS) return 0;
  CUresult e = entry_cuLibraryGetKernel(&found, reinterpret_cast<CUlibrary>(version), name);
  return e == CUDA_SUCCESS ? number_of(found) : 0;
}

}  // namespace

void add_versions(u64 library, std::vector<u64> versions) {
  std::lock_guard lock(version_table().mutex);
  version_table().libraries[library] = std::move(versions);
  version_table().empty = false;
}

std::vector<u64> forget_versions(u64 library) {
  std::lock_guard lock(version_table().mutex);
  std::vector<u64> others;
  auto found = version_table().libraries.find(library);
  if (found == version_table().libraries.end()) return others;
  for (u64 version : found->second)
    if (version != library) others.push_back(version);
  version_table().libraries.erase(found);
  return others;
}

u64 library_on(u64 library, CUdevice device) {
  if (version_table().empty.load(std::memory_order_acquire)) return library;
  std::lock_guard lock(version_table().mutex);
  auto found = version_table().libraries.find(library);
  bool known = found != version_table().libraries.end() && device >= 0 &&
               static_cast<size_t>(device) < found->second.size();
  return known ? found->second[device] : library;
}

u64 kernel_on(u64 kernel, CUdevice device) {
  if (version_table().empty.load(std::memory_order_acquire) || kind_of(kernel) != Kind::Kernel)
    return kernel;
  u64 library = ledger().owner_of(kernel), version = library_on(library, device);
  if (version == library) return kernel;
  {
    std::lock_guard lock(version_table().mutex);
    if (auto known = version_table().kernels.find({kernel, version});
        known != version_table().kernels.end())
      return known->second;
  }
  u64 found = find_kernel(kernel, version);
  std::lock_guard lock(version_table().mutex);
  if (found != 0) version_table().kernels[{kernel, version}] = found;
  return found;
}

u64 library_here(u64 library) { return library_on(library, device_here()); }
u64 kernel_here(u64 kernel) { return kernel_on(kernel, device_here()); }

}  // namespace ckpt::remote::cuda
