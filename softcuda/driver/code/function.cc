// SPDX-License-Identifier: Apache-2.0
//
// cuFunc*, and the cuKernel* calls with the same meaning.
#include "softcuda/driver/code/code.h"

namespace ckpt::softcuda::driver {
namespace {

int attribute_of(Function &f, CUfunction_attribute a) {
  const ptx::Function &decl = *f.symbol->function;
  switch (a) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return decl.max_threads != 0 ? static_cast<int>(decl.max_threads)
                                   : static_cast<int>(kThreadsPerBlock);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return static_cast<int>(f.kernel->static_shared());
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      return static_cast<int>(f.module->image->constant_bytes());
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return static_cast<int>(f.kernel->local_bytes());
    case CU_FUNC_ATTRIBUTE_NUM_REGS: return 32;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return static_cast<int>(f.module->image->architecture(f.symbol->module));
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: return static_cast<int>(process().sm);
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return f.max_dynamic_shared;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return f.attributes.contains(a) ? f.attributes[a] : -1;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: return static_cast<int>(decl.cluster[0]);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: return static_cast<int>(decl.cluster[1]);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return static_cast<int>(decl.cluster[2]);
    default: return f.attributes.contains(a) ? f.attributes[a] : 0;
  }
}

CUresult set_attribute(Function &f, CUfunction_attribute a, int value) {
  CHECK_CU(prepare(f));
  if (a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    REQUIRE(
        value >= 0 && static_cast<u32>(value) + f.kernel->static_shared() <= kSharedPerBlockOptin,
        CUDA_ERROR_INVALID_VALUE);
    f.max_dynamic_shared = value;
    return CUDA_SUCCESS;
  }
  REQUIRE(a == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ||
              a == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
          CUDA_ERROR_INVALID_VALUE);
  f.attributes[a] = value;
  return CUDA_SUCCESS;
}

CUresult parameter_of(Function &f, size_t index, size_t *offset, size_t *bytes) {
  CHECK_CU(prepare(f));
  const std::vector<vm::Slot> &params = f.kernel->entry().params;
  REQUIRE(index < params.size(), CUDA_ERROR_INVALID_VALUE);
  if (offset != nullptr) *offset = params[index].offset;
  if (bytes != nullptr) *bytes = params[index].bytes;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace ckpt::softcuda::driver

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuFuncGetName(const char **name, CUfunction function) {
  CALL_WITH_CONTEXT();
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  REQUIRE(name != nullptr, CUDA_ERROR_INVALID_VALUE);
  // The key of the map ends with a NUL; the symbol's name does not.
  *name = f->module->functions.find(std::string(f->symbol->function->name))->first.c_str();
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuFuncGetModule(CUmodule *out, CUfunction function) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  *out = reinterpret_cast<CUmodule>(f->module);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                                         CUfunction function) {
  CALL_WITH_CONTEXT();
  REQUIRE(value != nullptr && attribute >= 0 && attribute < CU_FUNC_ATTRIBUTE_MAX,
          CUDA_ERROR_INVALID_VALUE);
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  CHECK_CU(prepare(*f));
  *value = attribute_of(*f, attribute);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                         int value) {
  CALL_WITH_CONTEXT();
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  return set_attribute(*f, attribute, value);
}

SOFTCUDA_API CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute,
                                           CUkernel kernel, CUdevice) {
  return cuFuncGetAttribute(value, attribute, reinterpret_cast<CUfunction>(kernel));
}
SOFTCUDA_API CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value,
                                           CUkernel kernel, CUdevice) {
  return cuFuncSetAttribute(reinterpret_cast<CUfunction>(kernel), attribute, value);
}
SOFTCUDA_API CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
SOFTCUDA_API CUresult cuKernelSetCacheConfig(CUkernel, CUfunc_cache, CUdevice) {
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset,
                                         size_t *bytes) {
  CALL_WITH_CONTEXT();
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  return parameter_of(*f, index, offset, bytes);
}
SOFTCUDA_API CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset,
                                           size_t *bytes) {
  return cuFuncGetParamInfo(reinterpret_cast<CUfunction>(kernel), index, offset, bytes);
}

SOFTCUDA_API CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
  CALL_WITH_CONTEXT();
  REQUIRE(state != nullptr, CUDA_ERROR_INVALID_VALUE);
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  *state = f->kernel ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuFuncLoad(CUfunction function) {
  CALL_WITH_CONTEXT();
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  return prepare(*f);
}
