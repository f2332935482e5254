// SPDX-License-Identifier: Apache-2.0
//
// Which handle is which kernel: every entry that gives a program a CUfunction or CUkernel.
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/guest/kernels.h"

namespace ckpt::cuda {

CUresult guest_cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuModuleGetFunction)(function, module, name);
  if (e == CUDA_SUCCESS) guest::note_function(*function, module, name);
  return e;
}

// The driver is asked for each name, as a program would.
CUresult guest_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int n, CUmodule module) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuModuleEnumerateFunctions)(functions, n, module);
  auto name_of = reinterpret_cast<PFN_cuFuncGetName_v12030>(real_entry(Id::id_cuFuncGetName));
  for (unsigned i = 0; e == CUDA_SUCCESS && name_of != nullptr && i < n; ++i)
    if (const char *name = nullptr; name_of(&name, functions[i]) == CUDA_SUCCESS)
      guest::note_function(functions[i], module, name);
  return e;
}

CUresult guest_cuLibraryGetModule(CUmodule *module, CUlibrary library) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuLibraryGetModule)(module, library);
  if (e == CUDA_SUCCESS) guest::note_module(*module, library);
  return e;
}

CUresult guest_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuLibraryGetKernel)(kernel, library, name);
  if (e == CUDA_SUCCESS) guest::note_kernel(*kernel, library, name);
  return e;
}

CUresult guest_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int n, CUlibrary library) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuLibraryEnumerateKernels)(kernels, n, library);
  auto name_of = reinterpret_cast<PFN_cuKernelGetName_v12030>(real_entry(Id::id_cuKernelGetName));
  for (unsigned i = 0; e == CUDA_SUCCESS && name_of != nullptr && i < n; ++i)
    if (const char *name = nullptr; name_of(&name, kernels[i]) == CUDA_SUCCESS)
      guest::note_kernel(kernels[i], library, name);
  return e;
}

CUresult guest_cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuKernelGetFunction)(function, kernel);
  if (e == CUDA_SUCCESS) guest::note_same_function(*function, kernel);
  return e;
}

}  // namespace ckpt::cuda
