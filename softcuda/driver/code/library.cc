// SPDX-License-Identifier: Apache-2.0
//
// cuLibrary*, and the cuKernel* calls about a library's kernels.
#include "softcuda/driver/code/code.h"
#include "softcuda/driver/code/jit_outputs.h"
#include "softcuda/driver/code/named_entries.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

namespace {

CUresult load_library(const void *code, CUlibrary *out) {
  auto l = std::make_unique<Library>();
  CHECK_CU(read_code(code, l->ptx));
  CHECK_CU(link_image(l->ptx, l->symbols));
  for (const vm::Symbol *s : l->symbols->kernels()) {
    auto k = std::make_unique<Kernel>();
    k->library = l.get();
    k->name = s->function->name;
    process().kernels.add(k.get());
    l->kernels[k->name] = std::move(k);
  }
  *out = reinterpret_cast<CUlibrary>(process().libraries.add(l.release()));
  return CUDA_SUCCESS;
}

}  // namespace

SOFTCUDA_API CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *options,
                                        void **values, unsigned int n, CUlibraryOption *, void **,
                                        unsigned int) {
  CALL_INITIALISED();
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  JitCall jit(n, options, values);
  return jit.done(load_library(code, out));
}

SOFTCUDA_API CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *options,
                                            void **values, unsigned int n, CUlibraryOption *,
                                            void **, unsigned int) {
  CALL_INITIALISED();
  REQUIRE(path != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::vector<char> file;
  CHECK_CU(read_file(path, file));
  return cuLibraryLoadData(out, file.data(), options, values, n, nullptr, nullptr, 0);
}

SOFTCUDA_API CUresult cuLibraryUnload(CUlibrary library) {
  CALL_INITIALISED();
  Library *l = process().libraries.get(library);
  REQUIRE(l != nullptr, CUDA_ERROR_INVALID_HANDLE);
  std::map<Context *, Module *> modules;
  {
    std::lock_guard lock(l->mutex);
    modules.swap(l->modules);
  }
  for (auto [context, m] : modules) {
    context->synchronize();
    m->library = nullptr;
    unload_module(m);
  }
  process().libraries.remove(l);
  for (auto &[name, k] : l->kernels) process().kernels.remove(k.get());
  delete l;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name) {
  CALL_INITIALISED();
  return find_entry(process().libraries.get(library), &Library::kernels, name, out);
}

SOFTCUDA_API CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library) {
  CALL_INITIALISED();
  return count_entries(process().libraries.get(library), &Library::kernels, count);
}

SOFTCUDA_API CUresult cuLibraryEnumerateKernels(CUkernel *out, unsigned int n, CUlibrary library) {
  CALL_INITIALISED();
  return list_entries(process().libraries.get(library), &Library::kernels, out, n);
}

SOFTCUDA_API CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library) {
  CALL_WITH_CONTEXT();
  Library *l = process().libraries.get(library);
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(l != nullptr, CUDA_ERROR_INVALID_HANDLE);
  Module *m = nullptr;
  CHECK_CU(module_in(*l, call.context, m));
  *out = reinterpret_cast<CUmodule>(m);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuLibraryGetGlobal(CUdeviceptr *p, size_t *bytes, CUlibrary library,
                                         const char *name) {
  CUmodule module = nullptr;
  CHECK_CU(cuLibraryGetModule(&module, library));
  return cuModuleGetGlobal_v2(p, bytes, module, name);
}

SOFTCUDA_API CUresult cuLibraryGetManaged(CUdeviceptr *p, size_t *bytes, CUlibrary library,
                                          const char *name) {
  CUmodule module = nullptr;
  CHECK_CU(cuLibraryGetModule(&module, library));
  const vm::Symbol *s =
      name == nullptr ? nullptr : process().modules.get(module)->image->find(name);
  REQUIRE(s != nullptr && s->variable != nullptr && s->variable->managed, CUDA_ERROR_NOT_FOUND);
  return cuModuleGetGlobal_v2(p, bytes, module, name);
}

SOFTCUDA_API CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, kernel, f));
  *out = reinterpret_cast<CUfunction>(f);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel kernel) {
  CALL_INITIALISED();
  Kernel *k = process().kernels.get(kernel);
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(k != nullptr, CUDA_ERROR_INVALID_HANDLE);
  *out = reinterpret_cast<CUlibrary>(k->library);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuKernelGetName(const char **name, CUkernel kernel) {
  CALL_INITIALISED();
  Kernel *k = process().kernels.get(kernel);
  REQUIRE(name != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(k != nullptr, CUDA_ERROR_INVALID_HANDLE);
  *name = k->name.c_str();
  return CUDA_SUCCESS;
}
