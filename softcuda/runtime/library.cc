// SPDX-License-Identifier: Apache-2.0
//
// cudaLibrary*: code that the program loads itself.
#include "softcuda/runtime/boxes.h"
#include "softcuda/runtime/state.h"

using namespace ckpt::softcuda::runtime;

namespace {

CUlibrary library(cudaLibrary_t l) { return reinterpret_cast<CUlibrary>(l); }

}  // namespace

// The options are for a compiler, as those of cuModuleLoadDataEx.
CUDART_API cudaError_t cudaLibraryLoadData(cudaLibrary_t *out, const void *code, cudaJitOption *,
                                           void **, unsigned int, cudaLibraryOption *, void **,
                                           unsigned int) {
  FORWARD(cuLibraryLoadData(reinterpret_cast<CUlibrary *>(out), code, nullptr, nullptr, 0, nullptr,
                            nullptr, 0));
}
CUDART_API cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *out, const char *path,
                                               cudaJitOption *, void **, unsigned int,
                                               cudaLibraryOption *, void **, unsigned int) {
  FORWARD(cuLibraryLoadFromFile(reinterpret_cast<CUlibrary *>(out), path, nullptr, nullptr, 0,
                                nullptr, nullptr, 0));
}
CUDART_API cudaError_t cudaLibraryUnload(cudaLibrary_t l) { FORWARD(cuLibraryUnload(library(l))); }
CUDART_API cudaError_t cudaLibraryGetKernel(cudaKernel_t *out, cudaLibrary_t l, const char *name) {
  FORWARD(cuLibraryGetKernel(reinterpret_cast<CUkernel *>(out), library(l), name));
}
CUDART_API cudaError_t cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t l) {
  FORWARD(cuLibraryGetKernelCount(count, library(l)));
}
CUDART_API cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *out, unsigned int n,
                                                   cudaLibrary_t l) {
  FORWARD(cuLibraryEnumerateKernels(reinterpret_cast<CUkernel *>(out), n, library(l)));
}
CUDART_API cudaError_t cudaLibraryGetGlobal(void **p, size_t *bytes, cudaLibrary_t l,
                                            const char *name) {
  FORWARD(cuLibraryGetGlobal(device_pointer(p), bytes, library(l), name));
}
CUDART_API cudaError_t cudaLibraryGetManaged(void **p, size_t *bytes, cudaLibrary_t l,
                                             const char *name) {
  FORWARD(cuLibraryGetManaged(device_pointer(p), bytes, library(l), name));
}
CUDART_API cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t k, cudaFuncAttribute a,
                                                       int value, int device) {
  FORWARD(cuKernelSetAttribute(static_cast<CUfunction_attribute>(a), value,
                               reinterpret_cast<CUkernel>(k), device));
}
