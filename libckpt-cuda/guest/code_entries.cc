// SPDX-License-Identifier: Apache-2.0
//
// Loading and unloading code. The code of a managed program is examined before it is loaded,
// because a program whose kernels have used the device's heap can no longer be evicted.
#include "libckpt-cuda/calls/calls.h"
#include "libckpt-cuda/calls/manager_requests.h"
#include "libckpt-cuda/code/code.h"
#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/guest/kernels.h"

namespace ckpt::cuda {
namespace {

// `real` calls the driver, which writes `*handle`. A module belongs to a context, a library does
// not.
template <class Handle, class Real>
CUresult load(NewCode code, Handle *handle, bool of_context, Real real) {
  PASS_OR_RETURN(pass);
  ManagedLoad managed(of_context);
  if (CUresult e = managed.ask(code); e != CUDA_SUCCESS) return e;
  CUresult e = with_memory(real);
  managed.done(e == CUDA_SUCCESS ? *handle : nullptr);
  if (e == CUDA_SUCCESS) code.loaded();
  return e;
}

}  // namespace

CUresult entry_cuModuleLoad(CUmodule *module, const char *path) {
  auto real = [&](const void *text) {
    return text == nullptr ? REAL(cuModuleLoad)(module, path)
                           : driver().cuModuleLoadData(module, text);
  };
  return load(NewCode(path), module, true,
              [&] { return guest::load(nullptr, path, false, module, real); });
}

CUresult entry_cuModuleLoadData(CUmodule *module, const void *code) {
  auto real = [&](const void *text) { return REAL(cuModuleLoadData)(module, text); };
  return load(NewCode(code), module, true,
              [&] { return guest::load(code, nullptr, false, module, real); });
}

CUresult entry_cuModuleLoadDataEx(CUmodule *module, const void *code, unsigned int n,
                                  CUjit_option *options, void **values) {
  auto real = [&](const void *text) {
    return REAL(cuModuleLoadDataEx)(module, text, n, options, values);
  };
  return load(NewCode(code), module, true,
              [&] { return guest::load(code, nullptr, false, module, real); });
}

CUresult entry_cuModuleLoadFatBinary(CUmodule *module, const void *code) {
  auto real = [&](const void *text) {
    return text == code ? REAL(cuModuleLoadFatBinary)(module, text)
                        : driver().cuModuleLoadData(module, text);
  };
  return load(NewCode(code), module, true,
              [&] { return guest::load(code, nullptr, false, module, real); });
}

CUresult entry_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit,
                                 void **jit_values, unsigned int n_jit, CUlibraryOption *options,
                                 void **values, unsigned int n) {
  auto real = [&](const void *text) {
    return REAL(cuLibraryLoadData)(library, text, jit, jit_values, n_jit, options, values, n);
  };
  return load(NewCode(code), library, false,
              [&] { return guest::load(code, nullptr, true, library, real); });
}

CUresult entry_cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit,
                                     void **jit_values, unsigned int n_jit,
                                     CUlibraryOption *options, void **values, unsigned int n) {
  auto real = [&](const void *text) {
    return text == nullptr ? REAL(cuLibraryLoadFromFile)(library, path, jit, jit_values, n_jit,
                                                         options, values, n)
                           : driver().cuLibraryLoadData(library, text, jit, jit_values, n_jit,
                                                        options, values, n);
  };
  return load(NewCode(path), library, false,
              [&] { return guest::load(nullptr, path, true, library, real); });
}

CUresult entry_cuModuleUnload(CUmodule module) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuModuleUnload)(module);
  if (e != CUDA_SUCCESS) return e;
  report_unloaded(module);
  guest::forget_container(module);
  return e;
}

CUresult entry_cuLibraryUnload(CUlibrary library) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuLibraryUnload)(library);
  if (e != CUDA_SUCCESS) return e;
  report_unloaded(library);
  guest::forget_container(library);
  return e;
}

}  // namespace ckpt::cuda
