// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/code/code.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "fatbin/image.h"
#include "softcuda/driver/code/device_library.h"
#include "softcuda/driver/code/jit_outputs.h"
#include "softcuda/driver/code/link.h"
#include "softcuda/driver/state/strict.h"

namespace ckpt::softcuda::driver {
namespace {

// The newest PTX that the device accepts.
const fatbin::Entry *best_ptx(const fatbin::Container &c) {
  const fatbin::Entry *best = nullptr;
  for (const fatbin::Entry &e : c.entries)
    if (e.kind == fatbin::Kind::Ptx && e.arch <= process().sm &&
        (best == nullptr || e.arch > best->arch))
      best = &e;
  return best;
}

CUresult report_missing_ptx(const fatbin::Image &image) {
  bool newer = false;
  for (const fatbin::Container &c : image.containers())
    for (const fatbin::Entry &e : c.entries) newer |= e.kind == fatbin::Kind::Ptx;
  compiler_error(
      newer ? fmt::format(
                  "the program's PTX requires a newer device than sm_{}; set CKPT_SOFTCUDA_SM "
                  "to the compute capability that it was compiled for, times ten",
                  process().sm)
            : "the program holds no PTX, which is all that the software device can run. Compile it "
              "with -arch=sm_75 or -gencode arch=compute_75,code=compute_75. numba: install "
              "numba-cuda 0.19.1, since later versions link cubins. A library with cubins for this "
              "device and PTX for others (cuRAND): set CKPT_SOFTCUDA_SM=91");
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

// With -rdc=true the linked code is a cubin, and the translation units are PTX.
CUresult collect_ptx(const fatbin::Image &image, std::vector<std::string> &out) {
  bool units = std::ranges::any_of(
      image.containers(), [](const fatbin::Container &c) { return c.role == fatbin::Role::Unit; });
  for (const fatbin::Container &c : image.containers()) {
    if (units && c.role != fatbin::Role::Unit) continue;
    const fatbin::Entry *e = best_ptx(c);
    if (e == nullptr) continue;
    Result<fatbin::Payload> p = image.payload(*e);
    if (!p) {
      compiler_error(p.error().text());
      return CUDA_ERROR_INVALID_IMAGE;
    }
    std::ranges::move(linked_parts(p->text()), std::back_inserter(out));
  }
  return out.empty() ? report_missing_ptx(image) : CUDA_SUCCESS;
}

}  // namespace

CUresult read_code(const void *code, std::vector<std::string> &ptx) {
  REQUIRE(code != nullptr, CUDA_ERROR_INVALID_VALUE);
  Result<fatbin::Image> image = fatbin::Image::in_memory(code);
  if (!image) {
    compiler_error(image.error().text());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  return collect_ptx(*image, ptx);
}

namespace {

CUresult parse(const std::string &text, std::vector<std::unique_ptr<ptx::LoadedModule>> &modules) {
  Result<std::unique_ptr<ptx::LoadedModule>> m = ptx::parse_module(text);
  if (!m) {
    compiler_error(m.error().text());
    return CUDA_ERROR_INVALID_PTX;
  }
  modules.push_back(std::move(*m));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult link_image(const std::vector<std::string> &ptx, std::unique_ptr<vm::Image> &out) {
  std::vector<std::unique_ptr<ptx::LoadedModule>> modules;
  for (const std::string &text : ptx) CHECK_CU(parse(text, modules));
  if (const char *library = device_library_for(ptx)) CHECK_CU(parse(library, modules));
  Result<std::unique_ptr<vm::Image>> image = vm::Image::link(std::move(modules));
  if (!image) {
    compiler_error(image.error().text());
    return CUDA_ERROR_INVALID_PTX;
  }
  out = std::move(*image);
  return CUDA_SUCCESS;
}

namespace {

CUresult fill_variables(Module &m, bool managed, u64 base) {
  Result<std::vector<std::byte>> bytes = m.image->initial(managed);
  if (!bytes) {
    warn(bytes.error().text());
    return CUDA_ERROR_INVALID_PTX;
  }
  DeviceAccess access;
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

CUresult load_module(Context *c, const std::vector<std::string> &ptx, Module *&out) {
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
  if (!loads_lazily())
    for (auto &[name, f] : m->functions) (void)prepare(*f);  // an error is that of the launch
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

namespace {

// Kernels that a kernel launches were loaded with it.
bool waits_for_kernels(const Function &f) {
  return !f.prepared && in_call() && strict() && loads_lazily();
}

}  // namespace

CUresult prepare(Function &f) {
  if (waits_for_kernels(f)) f.module->context->wait_for_kernels();
  std::call_once(f.once, [&] {
    f.prepared = true;
    Result<std::unique_ptr<vm::Kernel>> k = vm::Kernel::link(*f.module->image, *f.symbol);
    if (k)
      f.kernel = std::move(*k);
    else
      f.decode_error = k.error().what;
  });
  if (f.kernel) return CUDA_SUCCESS;
  warn(f.decode_error);
  return CUDA_ERROR_INVALID_PTX;
}

CUresult module_in(Library &l, Context *c, Module *&out) {
  std::lock_guard lock(l.mutex);
  auto it = l.modules.find(c);
  if (it != l.modules.end()) {
    out = it->second;
    return CUDA_SUCCESS;
  }
  CHECK_CU(load_module(c, l.ptx, out));
  out->library = &l;
  l.modules[c] = out;
  return CUDA_SUCCESS;
}

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
