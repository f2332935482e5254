// SPDX-License-Identifier: Apache-2.0
//
// cuModule*.
#include "softcuda/driver/code/code.h"
#include "softcuda/driver/code/jit_outputs.h"
#include "softcuda/driver/code/named_entries.h"
#include "softcuda/driver/state/strict.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuModuleLoadData(CUmodule *out, const void *code) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::vector<std::string> ptx;
  CHECK_CU(read_code(code, ptx));
  Module *m = nullptr;
  CHECK_CU(load_module(call.context, ptx, m));
  *out = reinterpret_cast<CUmodule>(m);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuModuleLoadDataEx(CUmodule *out, const void *code, unsigned int n,
                                         CUjit_option *options, void **values) {
  JitCall jit(n, options, values);
  return jit.done(cuModuleLoadData(out, code));
}
SOFTCUDA_API CUresult cuModuleLoadFatBinary(CUmodule *out, const void *code) {
  return cuModuleLoadData(out, code);
}

SOFTCUDA_API CUresult cuModuleLoad(CUmodule *out, const char *path) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr && path != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::vector<char> file;
  CHECK_CU(read_file(path, file));
  return cuModuleLoadData(out, file.data());
}

SOFTCUDA_API CUresult cuModuleUnload(CUmodule module) {
  CALL_WITH_ANY_CONTEXT();
  Module *m = process().modules.get(module);
  REQUIRE(m != nullptr, CUDA_ERROR_INVALID_HANDLE);
  m->context->synchronize();
  unload_module(m);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  CALL_INITIALISED();
  REQUIRE(mode != nullptr, CUDA_ERROR_INVALID_VALUE);
  *mode = loads_lazily() ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name) {
  CALL_WITH_CONTEXT();
  return find_entry(process().modules.get(module), &Module::functions, name, out);
}

SOFTCUDA_API CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module) {
  CALL_WITH_CONTEXT();
  return count_entries(process().modules.get(module), &Module::functions, count);
}

SOFTCUDA_API CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned int n, CUmodule module) {
  CALL_WITH_CONTEXT();
  return list_entries(process().modules.get(module), &Module::functions, out, n);
}

SOFTCUDA_API CUresult cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *bytes, CUmodule module,
                                           const char *name) {
  CALL_WITH_CONTEXT();
  Module *m = process().modules.get(module);
  REQUIRE(name != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(m != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return variable_of(*m, name, p, bytes);
}
