// SPDX-License-Identifier: Apache-2.0
//
// cuModule*.
#include <fstream>
#include <iterator>

#include "softcuda/driver/process.h"

namespace ckpt::softcuda::driver {

CUresult variable_of(Module &m, const char *name, CUdeviceptr *p, size_t *bytes) {
  const vm::Symbol *s = m.image->find(name);
  REQUIRE(s != nullptr && s->variable != nullptr, CUDA_ERROR_NOT_FOUND);
  REQUIRE(s->variable->space == ptx::Space::Global || s->variable->space == ptx::Space::Const,
          CUDA_ERROR_NOT_FOUND);
  if (p != nullptr) *p = m.image->address(*s);
  if (bytes != nullptr) *bytes = s->variable->bytes;
  return CUDA_SUCCESS;
}

CUresult read_file(const char *path, std::vector<char> &out) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in, CUDA_ERROR_FILE_NOT_FOUND);
  out.assign(std::istreambuf_iterator<char>(in), {});
  out.push_back('\0');
  return CUDA_SUCCESS;
}

}  // namespace ckpt::softcuda::driver

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

// The options concern a compiler, which there is none of.
SOFTCUDA_API CUresult cuModuleLoadDataEx(CUmodule *out, const void *code, unsigned int,
                                         CUjit_option *, void **) {
  return cuModuleLoadData(out, code);
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
  CALL_WITH_CONTEXT();
  Module *m = process().modules.get(module);
  REQUIRE(m != nullptr, CUDA_ERROR_INVALID_HANDLE);
  m->context->synchronize();
  unload_module(m);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  CALL_INITIALISED();
  REQUIRE(mode != nullptr, CUDA_ERROR_INVALID_VALUE);
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name) {
  CALL_WITH_CONTEXT();
  Module *m = process().modules.get(module);
  REQUIRE(out != nullptr && name != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(m != nullptr, CUDA_ERROR_INVALID_HANDLE);
  auto it = m->functions.find(name);
  REQUIRE(it != m->functions.end(), CUDA_ERROR_NOT_FOUND);
  *out = reinterpret_cast<CUfunction>(it->second.get());
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module) {
  CALL_WITH_CONTEXT();
  Module *m = process().modules.get(module);
  REQUIRE(count != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(m != nullptr, CUDA_ERROR_INVALID_HANDLE);
  *count = static_cast<unsigned>(m->functions.size());
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned int n, CUmodule module) {
  CALL_WITH_CONTEXT();
  Module *m = process().modules.get(module);
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(m != nullptr, CUDA_ERROR_INVALID_HANDLE);
  for (auto &[name, f] : m->functions)
    if (n > 0) --n, *out++ = reinterpret_cast<CUfunction>(f.get());
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *bytes, CUmodule module,
                                           const char *name) {
  CALL_WITH_CONTEXT();
  Module *m = process().modules.get(module);
  REQUIRE(name != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(m != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return variable_of(*m, name, p, bytes);
}
