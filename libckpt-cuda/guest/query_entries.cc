// SPDX-License-Identifier: Apache-2.0
//
// A program's queries about a kernel are answered for its own code, not for the code with the added
// parameter. Parameters are counted here. For other queries (registers, shared memory, occupancy),
// the original PTX is loaded beside the rewritten one at the first query: its *twin*. The twin is
// never launched.
#include "libckpt-cuda/calls/calls.h"
#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/guest/kernels.h"

namespace ckpt::cuda {
namespace {

using guest::Kernel;

// Attributes that a program sets; their values are those of the kernel that runs.
bool is_set_by_program(CUfunction_attribute a) {
  return a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
         a >= CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
}

void *load_twin(guest::Code &code) {
  const void *text = code.original.c_str();
  if (code.is_library) {
    CUlibrary library = nullptr;
    driver().cuLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0);
    return library;
  }
  CUmodule module = nullptr;
  driver().cuModuleLoadData(&module, text);
  return module;
}

// The twin of `f`, or `f` itself where its code was not changed or the twin cannot be had.
CUfunction twin_of(CUfunction f) {
  Kernel *kernel = guest::kernel_of(f);
  if (kernel == nullptr || !kernel->facts.takes_slice) return f;
  guest::Code &code = *kernel->code;
  std::lock_guard lock(code.mutex);
  if (code.twin == nullptr && !code.original.empty()) code.twin = load_twin(code);
  if (code.twin == nullptr) return f;
  const char *name = kernel->facts.name.c_str();
  CUfunction twin = nullptr;
  CUresult e = code.is_library
                   ? driver().cuLibraryGetKernel(reinterpret_cast<CUkernel *>(&twin),
                                                 static_cast<CUlibrary>(code.twin), name)
                   : driver().cuModuleGetFunction(&twin, static_cast<CUmodule>(code.twin), name);
  return e == CUDA_SUCCESS ? twin : f;
}

// The number of parameters that the program knows, of a changed kernel.
bool hides_parameter(const void *f, size_t &known) {
  Kernel *kernel = guest::kernel_of(f);
  if (kernel == nullptr || !kernel->facts.takes_slice) return false;
  known = kernel->facts.parameters;
  return true;
}

}  // namespace

CUresult guest_cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f) {
  PASS_OR_RETURN(pass);
  return REAL(cuFuncGetAttribute)(value, attribute, is_set_by_program(attribute) ? f : twin_of(f));
}

CUresult guest_cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                                    CUdevice device) {
  PASS_OR_RETURN(pass);
  CUkernel asked = kernel;
  if (!is_set_by_program(attribute))
    asked = reinterpret_cast<CUkernel>(twin_of(reinterpret_cast<CUfunction>(kernel)));
  return REAL(cuKernelGetAttribute)(value, attribute, asked, device);
}

CUresult guest_cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *bytes) {
  PASS_OR_RETURN(pass);
  if (size_t known = 0; hides_parameter(f, known) && index >= known)
    return CUDA_ERROR_INVALID_VALUE;
  return REAL(cuFuncGetParamInfo)(f, index, offset, bytes);
}

CUresult guest_cuKernelGetParamInfo(CUkernel k, size_t index, size_t *offset, size_t *bytes) {
  PASS_OR_RETURN(pass);
  if (size_t known = 0; hides_parameter(k, known) && index >= known)
    return CUDA_ERROR_INVALID_VALUE;
  return REAL(cuKernelGetParamInfo)(k, index, offset, bytes);
}

CUresult guest_cuFuncGetParamCount(CUfunction f, size_t *count) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuFuncGetParamCount)(f, count);
  if (e == CUDA_SUCCESS) hides_parameter(f, *count);
  return e;
}

CUresult guest_cuKernelGetParamCount(CUkernel k, size_t *count) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuKernelGetParamCount)(k, count);
  if (e == CUDA_SUCCESS) hides_parameter(k, *count);
  return e;
}

CUresult guest_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int threads,
                                                           size_t shared) {
  PASS_OR_RETURN(pass);
  return REAL(cuOccupancyMaxActiveBlocksPerMultiprocessor)(blocks, twin_of(f), threads, shared);
}

CUresult guest_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction f,
                                                                    int threads, size_t shared,
                                                                    unsigned flags) {
  PASS_OR_RETURN(pass);
  return REAL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(blocks, twin_of(f), threads,
                                                                    shared, flags);
}

CUresult guest_cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f,
                                                CUoccupancyB2DSize shared_of, size_t shared,
                                                int limit) {
  PASS_OR_RETURN(pass);
  return REAL(cuOccupancyMaxPotentialBlockSize)(grid, block, twin_of(f), shared_of, shared, limit);
}

CUresult guest_cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f,
                                                         CUoccupancyB2DSize shared_of,
                                                         size_t shared, int limit, unsigned flags) {
  PASS_OR_RETURN(pass);
  return REAL(cuOccupancyMaxPotentialBlockSizeWithFlags)(grid, block, twin_of(f), shared_of, shared,
                                                         limit, flags);
}

CUresult guest_cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction f, int blocks,
                                                       int threads) {
  PASS_OR_RETURN(pass);
  return REAL(cuOccupancyAvailableDynamicSMemPerBlock)(bytes, twin_of(f), blocks, threads);
}

}  // namespace ckpt::cuda
