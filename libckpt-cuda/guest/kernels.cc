// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/guest/kernels.h"

#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "common/base/fnv.h"
#include "common/base/log.h"
#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/guest/ptx_choice.h"
#include "slicing/settings.h"
#include "slicing/whole_kernels.h"

namespace ckpt::cuda::guest {
namespace {

// Never destroyed: the CUDA runtime calls the driver after main() has returned.
struct Tables {
  std::shared_mutex mutex;
  std::unordered_map<const void *, Code *> containers;
  struct Function {
    Kernel *kernel;
    CUcontext context;
  };
  std::unordered_map<const void *, Function> functions;
  std::vector<std::unique_ptr<Code>> all;
};
Tables &tables() {
  static Tables *const kTables = new Tables;
  return *kTables;
}

Result<unsigned> capability(CUdevice device) {
  int major = 0, minor = 0;
  const Driver &d = driver();
  CKPT_CHECK(as_result(
      d.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
      "ask for the compute capability"));
  CKPT_CHECK(as_result(
      d.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
      "ask for the compute capability"));
  return static_cast<unsigned>(10 * major + minor);
}

// A module belongs to the current context's device; a library is for all devices.
Result<unsigned> target_capability(bool is_library) {
  CUdevice device = 0;
  if (!is_library) {
    CKPT_CHECK(as_result(driver().cuCtxGetDevice(&device), "find the device of the context"));
    return capability(device);
  }
  int count = 0;
  CKPT_CHECK(as_result(driver().cuDeviceGetCount(&count), "count the devices"));
  CKPT_TRY(unsigned first, capability(0));
  for (int i = 1; i < count; ++i) {
    CKPT_TRY(unsigned other, capability(i));
    if (other != first) return fail("the devices differ in their compute capability");
  }
  return first;
}

Result<fatbin::Image> open_image(const void *code, const char *path) {
  return path != nullptr ? fatbin::Image::open(path) : fatbin::Image::in_memory(code);
}

Result<> rewrite(Code &out, const void *code, const char *path) {
  CKPT_TRY(unsigned sm, target_capability(out.is_library));
  CKPT_TRY(fatbin::Image image, open_image(code, path));
  CKPT_TRY(std::string ptx, choose_ptx(image, sm));
  CKPT_TRY(slicing::Rewritten rewritten, slicing::rewrite(ptx));
  u64 hash = fnv1a(ptx);
  out.original = std::move(ptx);
  out.rewritten = std::move(rewritten.ptx);
  for (slicing::Kernel &facts : rewritten.kernels) {
    auto kernel = std::make_unique<Kernel>();
    kernel->code = &out;
    kernel->hash = fnv1a(facts.name, hash);
    kernel->waits = slicing::is_remembered_whole(kernel->hash);
    std::string name = facts.name;
    kernel->facts = std::move(facts);
    out.kernels.insert_or_assign(std::move(name), std::move(kernel));
  }
  return {};
}

void keep_as_it_is(Code &code, std::string why) {
  code.original.clear();
  code.rewritten.clear();
  code.kernels.clear();
  code.whole = std::move(why);
}

void remember(const void *container, std::unique_ptr<Code> code) {
  Tables &t = tables();
  std::lock_guard lock(t.mutex);
  t.containers[container] = code.get();
  t.all.push_back(std::move(code));
}

// Of code that is loaded as it is, kernels become known when the program asks for them.
Kernel *find_or_add(Code &code, std::string_view name) {
  if (auto it = code.kernels.find(name); it != code.kernels.end()) return it->second.get();
  if (code.whole.empty()) return nullptr;
  auto kernel = std::make_unique<Kernel>();
  kernel->code = &code;
  kernel->facts.name = name;
  kernel->facts.whole = code.whole;
  return (code.kernels[std::string(name)] = std::move(kernel)).get();
}

// Removes all handles of the container. Null: it is not known.
Code *take_container(const void *container) {
  Tables &t = tables();
  std::lock_guard lock(t.mutex);
  auto it = t.containers.find(container);
  if (it == t.containers.end()) return nullptr;
  Code *code = it->second;
  std::erase_if(t.containers, [&](auto &entry) { return entry.second == code; });
  std::erase_if(t.functions, [&](auto &entry) { return entry.second.kernel->code == code; });
  return code;
}

}  // namespace

CUresult load_rewritten(const void *program_code, const char *path, bool is_library, void **handle,
                        const void *self, LoadCall call) {
  if (!slicing::settings().sliced || (program_code == nullptr && path == nullptr))
    return call(self, program_code);
  auto code = std::make_unique<Code>();
  code->is_library = is_library;
  if (Result<> r = rewrite(*code, program_code, path); !r)
    keep_as_it_is(*code, std::move(r.error().what));
  CUresult e = CUDA_ERROR_INVALID_PTX;
  if (!code->rewritten.empty()) e = call(self, code->rewritten.c_str());
  if (e != CUDA_SUCCESS && e != CUDA_ERROR_OUT_OF_MEMORY) {
    if (!code->rewritten.empty())
      keep_as_it_is(*code, "the driver does not accept its rewritten PTX: " + error_name(e));
    e = call(self, program_code);
  }
  if (e == CUDA_SUCCESS) remember(*handle, std::move(code));
  return e;
}

void forget_container(const void *container) {
  if (!slicing::settings().sliced) return;
  Code *code = take_container(container);
  if (code == nullptr) return;
  std::lock_guard lock(code->mutex);
  code->original = code->rewritten = std::string();
  if (code->twin == nullptr) return;
  if (code->is_library)
    REAL(cuLibraryUnload)(static_cast<CUlibrary>(code->twin));
  else
    REAL(cuModuleUnload)(static_cast<CUmodule>(code->twin));
  code->twin = nullptr;
}

void note_module(const void *module, const void *library) {
  Tables &t = tables();
  std::lock_guard lock(t.mutex);
  if (auto it = t.containers.find(library); it != t.containers.end())
    t.containers[module] = it->second;
}

namespace {

CUcontext current_context() {
  CUcontext context = nullptr;
  return driver().cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : nullptr;
}

void note(const void *function, CUcontext context, const void *container, const char *name) {
  Tables &t = tables();
  std::lock_guard lock(t.mutex);
  t.functions.erase(function);  // a handle may be used again for another function
  auto it = t.containers.find(container);
  if (it == t.containers.end() || name == nullptr) return;
  if (Kernel *kernel = find_or_add(*it->second, name)) t.functions[function] = {kernel, context};
}

}  // namespace

void note_function(CUfunction function, CUmodule module, const char *name) {
  note(function, current_context(), module, name);
}

void note_kernel(CUkernel kernel, CUlibrary library, const char *name) {
  note(kernel, nullptr, library, name);
}

void note_same_function(CUfunction function, CUkernel of) {
  Kernel *kernel = kernel_of(of);
  CUcontext context = current_context();
  Tables &t = tables();
  std::lock_guard lock(t.mutex);
  t.functions.erase(function);
  if (kernel != nullptr) t.functions[function] = {kernel, context};
}

Kernel *kernel_of(const void *function) {
  Tables &t = tables();
  std::shared_lock lock(t.mutex);
  auto it = t.functions.find(function);
  return it == t.functions.end() ? nullptr : it->second.kernel;
}

CUcontext context_of(const void *function) {
  Tables &t = tables();
  std::shared_lock lock(t.mutex);
  auto it = t.functions.find(function);
  return it == t.functions.end() ? nullptr : it->second.context;
}

void name_whole(Kernel &kernel, std::string_view why) {
  if (kernel.named.exchange(true)) return;
  log::warn("kernel {} runs whole, not in slices: {}", kernel.facts.name, why);
}

}  // namespace ckpt::cuda::guest
