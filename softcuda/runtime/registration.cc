// SPDX-License-Identifier: Apache-2.0
//
// nvcc's host code registers its fat binaries, kernels and variables before main()
// (crt/host_runtime.h of the toolkit). They are loaded on first use.
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "softcuda/runtime/state.h"

namespace ckpt::softcuda::runtime {
namespace {

struct Binary {
  const void *wrapper = nullptr;
  CUlibrary library = nullptr;
  struct Managed {
    void **host;
    std::string name;
  };
  std::vector<Managed> managed;
};

struct Registered {
  Binary *binary = nullptr;
  std::string name;
  size_t bytes = 0;
  CUkernel kernel = nullptr;
  void **managed = nullptr;
};

struct Registry {
  std::mutex mutex;
  std::map<const void *, Registered> kernels, variables;
};
Registry &registry() {
  static Registry *const kRegistry = new Registry;
  return *kRegistry;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

cudaError_t load(Binary &b) {
  if (b.library != nullptr) return cudaSuccess;
  return as_runtime(
      cuLibraryLoadData(&b.library, b.wrapper, nullptr, nullptr, 0, nullptr, nullptr, 0));
}

Binary *binary_of(void **handle) { return reinterpret_cast<Binary *>(handle); }

}  // namespace

cudaError_t kernel_of(const void *function, CUkernel &out) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  auto it = r.kernels.find(function);
  if (it == r.kernels.end()) {
    // It may be a handle of cudaGetKernel or cudaLibraryGetKernel.
    const char *name = nullptr;
    out = static_cast<CUkernel>(const_cast<void *>(function));
    return cuKernelGetName(&name, out) == CUDA_SUCCESS ? cudaSuccess
                                                       : cudaErrorInvalidDeviceFunction;
  }
  Registered &n = it->second;
  if (n.kernel == nullptr) {
    if (cudaError_t e = load(*n.binary); e != cudaSuccess) return e;
    if (cuLibraryGetKernel(&n.kernel, n.binary->library, n.name.c_str()) != CUDA_SUCCESS)
      return cudaErrorInvalidDeviceFunction;
  }
  out = n.kernel;
  return cudaSuccess;
}

const void *host_function(CUkernel kernel) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  for (const auto &[host, n] : r.kernels)
    if (n.kernel == kernel) return host;
  return kernel;
}

cudaError_t variable_of(const void *symbol, CUdeviceptr &p, size_t &bytes) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  auto it = r.variables.find(symbol);
  if (it == r.variables.end()) return cudaErrorInvalidSymbol;
  if (cudaError_t e = load(*it->second.binary); e != cudaSuccess) return e;
  CUresult e = cuLibraryGetGlobal(&p, &bytes, it->second.binary->library, it->second.name.c_str());
  return e == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : as_runtime(e);
}

}  // namespace ckpt::softcuda::runtime

using namespace ckpt::softcuda::runtime;

CUDART_API void **__cudaRegisterFatBinary(void *wrapper) {
  Binary *b = new Binary;
  b->wrapper = wrapper;
  return reinterpret_cast<void **>(b);
}

CUDART_API void __cudaRegisterFatBinaryEnd(void **) {}

// Called when the process exits, perhaps while other threads still use the binary: frees nothing.
CUDART_API void __cudaUnregisterFatBinary(void **) {}

CUDART_API void __cudaRegisterFunction(void **handle, const char *host, char *, const char *name,
                                       int, uint3 *, uint3 *, dim3 *, dim3 *, int *) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  Registered n;
  n.binary = binary_of(handle);
  n.name = name;
  r.kernels[host] = n;
}

CUDART_API void __cudaRegisterVar(void **handle, char *host, char *, const char *name, int,
                                  size_t bytes, int, int) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  Registered n;
  n.binary = binary_of(handle);
  n.name = name;
  n.bytes = bytes;
  r.variables[host] = n;
}

CUDART_API void __cudaRegisterManagedVar(void **handle, void **host, char *, const char *name, int,
                                         size_t bytes, int, int) {
  __cudaRegisterVar(handle, reinterpret_cast<char *>(host), nullptr, name, 0, bytes, 0, 0);
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  binary_of(handle)->managed.push_back({host, name});
}

// Called before the first use of a managed variable: sets the host's pointers to these variables.
CUDART_API char __cudaInitModule(void **handle) {
  Binary *b = binary_of(handle);
  if (b->managed.empty() || enter() != cudaSuccess) return 1;
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  if (load(*b) != cudaSuccess) return 0;
  for (const Binary::Managed &m : b->managed) {
    CUdeviceptr p = 0;
    size_t bytes = 0;
    if (cuLibraryGetManaged(&p, &bytes, b->library, m.name.c_str()) != CUDA_SUCCESS) return 0;
    *m.host = reinterpret_cast<void *>(p);
  }
  return 1;
}

CUDART_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                struct CUstream_st *stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

CUDART_API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                                  void *stream) {
  if (configurations.empty()) return keep(cudaErrorMissingConfiguration);
  const Configuration &c = configurations.back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<cudaStream_t *>(stream) = c.stream;
  configurations.pop_back();
  return cudaSuccess;
}

// The result is only passed to __cudaLaunchKernel, which also accepts the address on the host. So
// nothing needs to be loaded when the program starts.
CUDART_API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void *>(function));
  return cudaSuccess;
}

CUDART_API cudaError_t cudaGetKernel(cudaKernel_t *out, const void *function) {
  if (out == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(kernel_of(function, k));
  *out = reinterpret_cast<cudaKernel_t>(k);
  return cudaSuccess;
}

CUDART_API cudaError_t cudaGetFuncBySymbol(cudaFunction_t *out, const void *function) {
  if (out == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(kernel_of(function, k));
  return keep(as_runtime(cuKernelGetFunction(reinterpret_cast<CUfunction *>(out), k)));
}

CUDART_API cudaError_t cudaGetSymbolAddress(void **out, const void *symbol) {
  if (out == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUdeviceptr p = 0;
  size_t bytes = 0;
  RETURN_IF(variable_of(symbol, p, bytes));
  *out = reinterpret_cast<void *>(p);
  return cudaSuccess;
}

CUDART_API cudaError_t cudaGetSymbolSize(size_t *out, const void *symbol) {
  if (out == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUdeviceptr p = 0;
  RETURN_IF(variable_of(symbol, p, *out));
  return cudaSuccess;
}
