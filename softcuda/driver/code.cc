// SPDX-License-Identifier: Apache-2.0
//
// Modules, libraries, functions: from what a program hands over to what can be launched.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "fatbin/image.h"
#include "softcuda/driver/process.h"

namespace ckpt::softcuda::driver {
namespace {

// The newest PTX that a device of this kind takes.
const fatbin::Entry *best_ptx(const fatbin::Container &c) {
  const fatbin::Entry *best = nullptr;
  for (const fatbin::Entry &e : c.entries)
    if (e.kind == fatbin::Kind::Ptx && e.arch <= process().sm &&
        (best == nullptr || e.arch > best->arch))
      best = &e;
  return best;
}

CUresult why_no_ptx(const fatbin::Image &image) {
  bool newer = false;
  for (const fatbin::Container &c : image.containers())
    for (const fatbin::Entry &e : c.entries) newer |= e.kind == fatbin::Kind::Ptx;
  say(newer
          ? fmt::format(
                "the program's PTX is for newer devices than sm_{} (CKPT_SOFTCUDA_SM sets another)",
                process().sm)
          : "the program holds no PTX, and the software device runs nothing else: compile with "
            "-arch=sm_75 or "
            "-gencode arch=compute_75,code=compute_75");
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

// With -rdc=true the linked code is a cubin; its translation units are there as PTX.
CUresult collect(const fatbin::Image &image, std::vector<std::string> &out) {
  bool units = std::ranges::any_of(
      image.containers(), [](const fatbin::Container &c) { return c.role == fatbin::Role::Unit; });
  for (const fatbin::Container &c : image.containers()) {
    if (units && c.role != fatbin::Role::Unit) continue;
    const fatbin::Entry *e = best_ptx(c);
    if (e == nullptr) continue;
    Result<fatbin::Payload> p = image.payload(*e);
    if (!p) {
      say(p.error().text());
      return CUDA_ERROR_INVALID_IMAGE;
    }
    out.emplace_back(p->text());
  }
  return out.empty() ? why_no_ptx(image) : CUDA_SUCCESS;
}

}  // namespace

CUresult read_code(const void *code, std::vector<std::string> &ptx) {
  REQUIRE(code != nullptr, CUDA_ERROR_INVALID_VALUE);
  if (linked_code(code, ptx)) return CUDA_SUCCESS;
  Result<fatbin::Image> image = fatbin::Image::in_memory(code);
  if (!image) {
    say(image.error().text());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  return collect(*image, ptx);
}

namespace {

CUresult link_image(const std::vector<std::string> &ptx, std::unique_ptr<vm::Image> &out) {
  std::vector<std::unique_ptr<ptx::Module>> modules;
  for (const std::string &text : ptx) {
    Result<std::unique_ptr<ptx::Module>> m = ptx::parse_module(text);
    if (!m) {
      say(m.error().text());
      return CUDA_ERROR_INVALID_PTX;
    }
    modules.push_back(std::move(*m));
  }
  Result<std::unique_ptr<vm::Image>> image = vm::Image::link(std::move(modules));
  if (!image) {
    say(image.error().text());
    return CUDA_ERROR_INVALID_PTX;
  }
  out = std::move(*image);
  return CUDA_SUCCESS;
}

CUresult fill_variables(Module &m, bool managed, u64 base) {
  Result<std::vector<std::byte>> bytes = m.image->initial(managed);
  if (!bytes) {
    say(bytes.error().text());
    return CUDA_ERROR_INVALID_PTX;
  }
  if (!bytes->empty())
    std::memcpy(process().memory->host(base, bytes->size()), bytes->data(), bytes->size());
  return CUDA_SUCCESS;
}

CUresult place_variables(Module &m) {
  u32 device = static_cast<u32>(m.context->device->index);
  Memory &memory = *process().memory;
  if (u64 n = m.image->bytes()) {
    std::optional<Allocation> a = memory.allocate(device, n, MemoryKind::Device, m.context);
    REQUIRE(a, CUDA_ERROR_OUT_OF_MEMORY);
    m.base = a->base;
  }
  if (u64 n = m.image->managed_bytes()) {
    std::optional<Allocation> a =
        memory.allocate_host(n, MemoryKind::Managed, device, CU_MEM_ATTACH_GLOBAL, m.context);
    REQUIRE(a, CUDA_ERROR_OUT_OF_MEMORY);
    m.managed_base = a->base;
  }
  m.image->place(m.base, m.managed_base);
  CHECK_CU(fill_variables(m, false, m.base));
  return fill_variables(m, true, m.managed_base);
}

void release_variables(Module &m) {
  if (m.base != 0) process().memory->release(m.base, MemoryKind::Device);
  if (m.managed_base != 0) process().memory->release(m.managed_base, MemoryKind::Managed);
}

}  // namespace

CUresult load_module(Context *c, std::vector<std::string> ptx, Module *&out) {
  auto m = std::make_unique<Module>();
  m->context = c;
  CHECK_CU(link_image(ptx, m->image));
  if (CUresult e = place_variables(*m); e != CUDA_SUCCESS) {
    release_variables(*m);
    return e;
  }
  for (const vm::Symbol *s : m->image->kernels()) {
    auto f = std::make_unique<Function>();
    f->module = m.get();
    f->symbol = s;
    process().functions.add(f.get());
    m->functions[std::string(s->function->name)] = std::move(f);
  }
  std::lock_guard lock(c->mutex);
  out = process().modules.add(m.release());
  c->modules.insert(out);
  return CUDA_SUCCESS;
}

void unload_module(Module *m) {
  if (!process().modules.remove(m)) return;
  {
    std::lock_guard lock(m->context->mutex);
    m->context->modules.erase(m);
  }
  for (auto &[name, f] : m->functions) process().functions.remove(f.get());
  release_variables(*m);
  if (m->library != nullptr) {
    std::lock_guard lock(m->library->mutex);
    m->library->modules.erase(m->context);
  }
  delete m;
}

// Decodes a kernel when it is first needed.
CUresult prepare(Function &f) {
  std::call_once(f.once, [&] {
    Result<std::unique_ptr<vm::Kernel>> k = vm::Kernel::link(*f.module->image, *f.symbol);
    if (k)
      f.kernel = std::move(*k);
    else
      f.why_not = k.error().what;
  });
  if (f.kernel) return CUDA_SUCCESS;
  say(f.why_not);
  return CUDA_ERROR_INVALID_PTX;
}

namespace {

CUresult module_in(Library &l, Context *c, Module *&out) {
  std::lock_guard lock(l.mutex);
  auto it = l.modules.find(c);
  if (it != l.modules.end()) return out = it->second, CUDA_SUCCESS;
  CHECK_CU(load_module(c, l.ptx, out));
  out->library = &l;
  l.modules[c] = out;
  return CUDA_SUCCESS;
}

}  // namespace

// A launch takes a function, or a kernel that is cast to one.
CUresult function_of(Context *c, const void *handle, Function *&out) {
  Process &p = process();
  if (p.functions.holds(handle)) {
    out = static_cast<Function *>(const_cast<void *>(handle));
    return CUDA_SUCCESS;
  }
  REQUIRE(p.kernels.holds(handle), CUDA_ERROR_INVALID_HANDLE);
  const Kernel *k = static_cast<const Kernel *>(handle);
  Module *m = nullptr;
  CHECK_CU(module_in(*k->library, c, m));
  auto it = m->functions.find(k->name);
  REQUIRE(it != m->functions.end(), CUDA_ERROR_NOT_FOUND);
  out = it->second.get();
  return CUDA_SUCCESS;
}

namespace {

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

int attribute_of(Function &f, CUfunction_attribute a) {
  const ptx::Function &decl = *f.symbol->function;
  switch (a) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return decl.max_threads != 0 ? static_cast<int>(decl.max_threads)
                                   : static_cast<int>(kThreadsPerBlock);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return static_cast<int>(f.kernel->static_shared());
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return static_cast<int>(f.kernel->local_bytes());
    case CU_FUNC_ATTRIBUTE_NUM_REGS: return 32;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: return static_cast<int>(process().sm);
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return f.max_dynamic_shared;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return f.attributes.contains(a) ? f.attributes[a] : -1;
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

SOFTCUDA_API CUresult cuModuleLoadData(CUmodule *out, const void *code) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::vector<std::string> ptx;
  CHECK_CU(read_code(code, ptx));
  Module *m = nullptr;
  CHECK_CU(load_module(call.context, std::move(ptx), m));
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

SOFTCUDA_API CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *, void **,
                                        unsigned int, CUlibraryOption *, void **, unsigned int) {
  CALL_INITIALISED();
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  auto l = std::make_unique<Library>();
  CHECK_CU(read_code(code, l->ptx));
  CHECK_CU(link_image(l->ptx, l->names));
  for (const vm::Symbol *s : l->names->kernels()) {
    auto k = std::make_unique<Kernel>();
    k->library = l.get();
    k->name = s->function->name;
    process().kernels.add(k.get());
    l->kernels[k->name] = std::move(k);
  }
  *out = reinterpret_cast<CUlibrary>(process().libraries.add(l.release()));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *,
                                            void **, unsigned int, CUlibraryOption *, void **,
                                            unsigned int) {
  CALL_INITIALISED();
  REQUIRE(path != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::vector<char> file;
  CHECK_CU(read_file(path, file));
  return cuLibraryLoadData(out, file.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
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
  Library *l = process().libraries.get(library);
  REQUIRE(out != nullptr && name != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(l != nullptr, CUDA_ERROR_INVALID_HANDLE);
  auto it = l->kernels.find(name);
  REQUIRE(it != l->kernels.end(), CUDA_ERROR_NOT_FOUND);
  *out = reinterpret_cast<CUkernel>(it->second.get());
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library) {
  CALL_INITIALISED();
  Library *l = process().libraries.get(library);
  REQUIRE(count != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(l != nullptr, CUDA_ERROR_INVALID_HANDLE);
  *count = static_cast<unsigned>(l->kernels.size());
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuLibraryEnumerateKernels(CUkernel *out, unsigned int n, CUlibrary library) {
  CALL_INITIALISED();
  Library *l = process().libraries.get(library);
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(l != nullptr, CUDA_ERROR_INVALID_HANDLE);
  for (auto &[name, k] : l->kernels)
    if (n > 0) --n, *out++ = reinterpret_cast<CUkernel>(k.get());
  return CUDA_SUCCESS;
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

SOFTCUDA_API CUresult cuFuncGetName(const char **name, CUfunction function) {
  CALL_WITH_CONTEXT();
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  REQUIRE(name != nullptr, CUDA_ERROR_INVALID_VALUE);
  // The name's own storage ends without a NUL; the key of the map is a string.
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
