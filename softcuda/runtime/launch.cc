// SPDX-License-Identifier: Apache-2.0
//
// Launches of kernels and host functions. Compiled twice, as copy.cc is.
#include "softcuda/runtime/stream_devices.h"

using namespace ckpt::softcuda::runtime;

namespace {

cudaError_t launch_error(CUresult e, dim3 grid, dim3 block) {
  bool shape = block.x * static_cast<size_t>(block.y) * block.z > 1024 || block.x == 0 ||
               block.y == 0 || block.z == 0 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
               grid.y > 65535 || grid.z > 65535;
  return e == CUDA_ERROR_INVALID_VALUE && shape ? cudaErrorInvalidConfiguration : as_runtime(e);
}

}  // namespace

CUDART_API cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args,
                                        size_t shared, cudaStream_t s) {
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(check_stream_device(s));
  RETURN_IF(kernel_of(function, k));
  return keep(launch_error(
      cuLaunchKernel(reinterpret_cast<CUfunction>(k), grid.x, grid.y, grid.z, block.x, block.y,
                     block.z, static_cast<unsigned>(shared), s, args, nullptr),
      grid, block));
}
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define __cudaLaunchKernel __cudaLaunchKernel_ptsz
#endif
CUDART_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                                          size_t shared, cudaStream_t s) {
  return cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, args, shared, s);
}
CUDART_API cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                                   void **args, size_t shared, cudaStream_t s) {
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(check_stream_device(s));
  RETURN_IF(kernel_of(function, k));
  return keep(launch_error(
      cuLaunchCooperativeKernel(reinterpret_cast<CUfunction>(k), grid.x, grid.y, grid.z, block.x,
                                block.y, block.z, static_cast<unsigned>(shared), s, args),
      grid, block));
}
CUDART_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                           void **args) {
  if (config == nullptr) return keep(cudaErrorInvalidValue);
  RETURN_IF(enter());
  CUkernel k = nullptr;
  RETURN_IF(check_stream_device(config->stream));
  RETURN_IF(kernel_of(function, k));
  CUlaunchConfig c = as_driver(*config);
  return keep(launch_error(cuLaunchKernelEx(&c, reinterpret_cast<CUfunction>(k), args, nullptr),
                           config->gridDim, config->blockDim));
}
CUDART_API cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *data) {
  FORWARD(cuLaunchHostFunc(s, f, data));
}
CUDART_API cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t f, void *data,
                                             unsigned int flags) {
  FORWARD(cuStreamAddCallback(s, reinterpret_cast<CUstreamCallback>(f), data, flags));
}
