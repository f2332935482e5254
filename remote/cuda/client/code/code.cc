// SPDX-License-Identifier: Apache-2.0
//
// Device code. A part (a container of a fat binary, a cubin, a text of PTX) is sent once; its
// number is its hash.
#include <fstream>
#include <iterator>

#include "common/base/log.h"
#include "fatbin/image.h"
#include "remote/cuda/client/code/code_versions.h"
#include "remote/cuda/client/code/device_linker.h"
#include "remote/cuda/client/code/handle_table.h"
#include "remote/cuda/client/code/launches.h"
#include "remote/cuda/client/code/placed_code.h"
#include "remote/cuda/client/code/unplaced_code.h"
#include "remote/cuda/client/memory/memory.h"
#include "remote/cuda/client/objects/client.h"
#include "remote/cuda/jit_options.h"

namespace ckpt::remote::cuda {
namespace {

// What a program asks to be loaded.
struct Wanted {
  u64 number = 0;
  JitOptions options;
  api::JitOutputs outputs;
};

Bytes load_arguments(const LoadedCode &code, const Wanted &wanted) {
  Writer w;
  w.put(wanted.number).put(code.form()).put(static_cast<u32>(code.parts().size()));
  for (const CodePart &p : code.parts()) w.put(p.number);
  put(w, wanted.options);
  return w.take();
}

bool fits_a_message(u64 bytes) { return bytes <= kMaxBody - 4096; }

// One driver has taken the library, and the other one has not.
void unload_where_it_is(u64 library) {
  Writer w;
  w.put(library);
  for (Site::By by : {Site::By::Own, Site::By::Server})
    (void)link().ask(line_cuLibraryUnload, {by, 0}, {w.bytes()});
}

CUresult load_parts(const std::shared_ptr<const LoadedCode> &code, const Wanted &wanted) {
  bool library = kind_of(wanted.number) == Kind::Library;
  Site site = current_context();
  if (library) site.by = Site::By::All;
  Bytes arguments = load_arguments(*code, wanted), reply;
  send_parts(*code, site);
  CUresult e = note_error(link().ask(number(Op::Load), site, {arguments}, &reply));
  Reader r(reply);
  if (e == CUDA_SUCCESS && r.get<u64>() != wanted.number) return link().malformed();
  JitAnswer said;
  if (get(r, said)) write_answer(wanted.outputs, said);
  if (e == CUDA_SUCCESS && !r.done()) return link().malformed();
  if (e != CUDA_SUCCESS && library && link().is_split()) unload_where_it_is(wanted.number);
  if (e != CUDA_SUCCESS) return e;
  ledger().add(wanted.number, library ? 0 : site.context,
               {number(Op::Load), site.context, std::move(arguments), site.by}, code);
  return e;
}

// With the variables on this device, if it is a library.
Result<> load_on(CUdevice device, u64 home, const fatbin::Image &image,
                 const FixedVariables &variables, const Wanted &wanted,
                 const std::string &why_left) {
  CKPT_TRY(FixedCode fixed, place_code(variables, wanted.number, device, home));
  std::vector<CodePart> parts;
  for (const Bytes &part : fixed.parts) {
    if (!fits_a_message(part.size())) break;
    parts.push_back(keep_part(part));
  }
  CUresult e = CUDA_ERROR_INVALID_IMAGE;
  if (parts.size() == fixed.parts.size())
    e = load_parts(std::make_shared<LoadedCode>(image.form(), std::move(parts), why_left,
                                                variables.taken_function()),
                   wanted);
  if (e != CUDA_SUCCESS) {
    end_placed_code(wanted.number);
    return device_failure("the driver does not take its PTX", e);
  }
  return {};
}

// How many devices need a version of the code (code_versions.h).
Result<CUdevice> versions_of(const FixedVariables &variables, u64 number) {
  int devices = 0;
  if (kind_of(number) != Kind::Library || variables.bytes() == 0) return 1;
  if (entry_cuDeviceGetCount(&devices) != CUDA_SUCCESS) return fail("there is no device");
  return std::max(devices, 1);
}

// The devices in the order in which their versions are loaded. Managed variables exist once for all
// devices: the first one has them, which is the device that the program uses now.
std::vector<CUdevice> in_order(CUdevice devices) {
  CUdevice home = ledger().device_of(current_context()).value_or(0);
  std::vector<CUdevice> all{home < devices ? home : 0};
  for (CUdevice d = 0; d < devices; d++)
    if (d != all[0]) all.push_back(d);
  return all;
}

// Loads the code from its PTX, with its variables in the arena, and handles looked up. An error
// says why not. `why_left`: why variables stay where the driver places them.
Result<> load_rewritten(const fatbin::Image &image, const FixedVariables &variables,
                        const Wanted &wanted, const std::string &why_left) {
  CKPT_TRY(CUdevice devices, versions_of(variables, wanted.number));
  bool managed = devices > 1 && variables.managed_begin() < variables.bytes();
  std::vector<u64> versions(static_cast<size_t>(devices)), loaded;
  for (CUdevice device : in_order(devices)) {
    Wanted version = wanted;
    if (device > 0) version.number = ledger().new_number(Kind::Library);
    u64 home = managed && !loaded.empty() ? loaded[0] : 0;
    if (Result<> r = load_on(device, home, image, variables, version, why_left); !r) {
      for (u64 number : loaded) (void)ask_cuLibraryUnload(reinterpret_cast<CUlibrary>(number));
      return r;
    }
    loaded.push_back(versions[static_cast<size_t>(device)] = version.number);
  }
  if (devices > 1) add_versions(wanted.number, std::move(versions));
  return {};
}

// As load_rewritten(), if there is a reason to. If variables are in the way, without them. `why`:
// why variables stay where the driver places them.
bool load_better(const fatbin::Image &image, FixedVariables &variables, const Wanted &wanted,
                 std::string &why) {
  bool handles = variables.uses_textures() && handles_are_cells();
  if (variables.bytes() > 0) {
    Result<> r = load_rewritten(image, variables, wanted, why);
    if (r) return true;
    why = r.error().what;
    variables.leave_all();
  }
  // Cubins without PTX are left out where they could not be admitted.
  handles |= !variables.covers_cubins() && has_cells();
  return handles && load_rewritten(image, variables, wanted, why);
}

// `opaque`: see handle_table.h.
CUresult load_as_it_is(const std::shared_ptr<const LoadedCode> &code, const Wanted &wanted,
                       bool opaque) {
  opaque &= handles_are_cells();
  if (opaque && !admit_opaque(wanted.number)) return refuse_opaque(*code);
  CUresult e = load_parts(code, wanted);
  if (e != CUDA_SUCCESS) forget_opaque(wanted.number);
  return e;
}

CUresult load_image(const fatbin::Image &image, const Wanted &wanted) {
  std::vector<CodePart> parts;
  for (const fatbin::Container &c : image.containers()) {
    if (!fits_a_message(c.bytes))
      return refuse("a fat binary of more than 64 MiB", "it does not fit into one message");
    parts.push_back(keep_part(view(reinterpret_cast<const void *>(c.at), c.bytes)));
  }
  Result<FixedVariables> variables = FixedVariables::find(image);
  std::string why =
      variables ? "its value contains an address that the driver chooses" : variables.error().what;
  std::string managed = unreachable_managed(image, variables);
  if (managed.empty() && variables) {
    if (load_better(image, *variables, wanted, why)) return CUDA_SUCCESS;
    managed = variables->unplaced_managed();
  }
  if (!managed.empty()) return refuse_managed(managed, why);
  bool opaque = !variables || variables->uses_textures() || !variables->covers_cubins();
  std::string taken = variables ? variables->taken_function() : "";
  return load_as_it_is(std::make_shared<LoadedCode>(image.form(), std::move(parts), why, taken),
                       wanted, opaque);
}

CUresult load(const void *code, const Wanted &wanted) {
  Result<fatbin::Image> image = fatbin::Image::in_memory(code);
  if (!image) {
    log::warn("device code cannot be read: {}", image.error().what);
    wanted.outputs.write("", image.error().what, 0);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  std::optional<CodePart> text = text_behind(*image);
  if (text) image = fatbin::Image::in_memory(text->bytes->data());
  return image ? load_image(*image, wanted) : CUDA_ERROR_INVALID_IMAGE;
}

template <class Handle>
CUresult load_as(Kind kind, Handle *out, const void *code, unsigned n, CUjit_option *options,
                 void **values) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out || !code) return CUDA_ERROR_INVALID_VALUE;
  Wanted wanted{ledger().new_number(kind), jit_options(n, options, values),
                api::JitOutputs(n, options, values)};
  CUresult e = load(code, wanted);
  if (e == CUDA_SUCCESS) *out = reinterpret_cast<Handle>(wanted.number);
  return e;
}

// As the program would have it in memory: text ends with a NUL. The sizes in the file are checked
// here, because those of code in memory cannot be.
CUresult read_code(const char *path, Bytes &out) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!fatbin::Image::from_bytes(view(bytes))) return CUDA_ERROR_INVALID_IMAGE;
  out.assign(view(bytes).begin(), view(bytes).end());
  out.push_back(std::byte{0});
  return CUDA_SUCCESS;
}

CUresult load_module(CUmodule *out, const void *code) {
  return load_as(Kind::Module, out, code, 0, nullptr, nullptr);
}

std::optional<PlacedVariable> placed_in(u64 owner, const char *name) {
  std::optional<PlacedVariable> placed = placed_variable(owner, name);
  // The module of a library (cuLibraryGetModule).
  return placed ? placed : placed_variable(ledger().owner_of(owner), name);
}

CUresult variable(u64 owner, const char *name, CUdeviceptr *out, size_t *bytes) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!name || (!out && !bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult e = initialise_placed_variables(); e != CUDA_SUCCESS) return e;
  if (std::optional<PlacedVariable> placed = placed_in(owner, name)) {
    memory().add_placed(placed->address, placed->bytes, placed->context, owner,
                        placed->managed ? Sharing::Managed : Sharing::None);
    if (out) *out = placed->address;
    if (bytes) *bytes = placed->bytes;
    return CUDA_SUCCESS;
  }
  Writer w;
  Bytes reply;
  CUresult e = ask(Op::Global, site_of_handle(owner), w.put(owner).str(name), &reply);
  if (e != CUDA_SUCCESS) return e;
  Reader r(reply);
  u64 p = r.get<u64>(), n = r.get<u64>();
  if (!r.done() || p == 0 || !lies_within(p, n, ~u64{0})) return link().malformed();
  memory().add_placed(p, n, current_context(), owner, Sharing::None);
  if (out) *out = p;
  if (bytes) *bytes = n;
  return e;
}

std::string why_with_driver(u64 library) {
  for (const Ledger::Object &o : ledger().objects(Kind::Library))
    if (o.number == library && o.code)
      return "the driver places the variables of this code: " + o.code->why_not_placed();
  return "there is no such library";
}

// The names of functions, which the program has given itself.
struct Names {
  std::mutex mutex;
  std::unordered_map<u64, std::string> all;
};
Names &names() {
  static Names *const kNames = new Names;
  return *kNames;
}

CUresult name_of(const char **out, u64 function) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(names().mutex);
  auto found = names().all.find(function);
  if (found == names().all.end()) return CUDA_ERROR_INVALID_HANDLE;
  *out = found->second.c_str();
  return CUDA_SUCCESS;
}

CUresult note_name(CUresult e, const void *function, const char *name) {
  if (e != CUDA_SUCCESS) return e;
  std::lock_guard lock(names().mutex);
  names().all.emplace(number_of(function), name);
  return e;
}

CUkernel on_device(CUkernel k, CUdevice device) {
  return reinterpret_cast<CUkernel>(kernel_on(number_of(k), device));
}

}  // namespace

void send_part(const CodePart &part, const Site &site) {
  if (site.by == Site::By::All && link().is_split()) {
    send_part(part, {Site::By::Own, 0});
    return send_part(part, {Site::By::Server, 0});
  }
  if (!link().sends_first(part.number, link().is_here(site))) return;
  Writer w;
  ByteView bytes = ByteView(*part.bytes).first(part.bytes->size() - 1);
  link().send(number(Op::Code), site, {w.put(part.number).bytes(), bytes});
}

void send_parts(const LoadedCode &code, const Site &site) {
  for (const CodePart &part : code.parts()) send_part(part, site);
}

CUresult entry_cuModuleLoadData(CUmodule *out, const void *code) { return load_module(out, code); }

CUresult entry_cuModuleLoadDataEx(CUmodule *out, const void *code, unsigned n,
                                  CUjit_option *options, void **values) {
  return load_as(Kind::Module, out, code, n, options, values);
}

CUresult entry_cuModuleLoadFatBinary(CUmodule *out, const void *code) {
  return load_module(out, code);
}

CUresult entry_cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *options,
                                 void **values, unsigned n, CUlibraryOption *, void **, unsigned) {
  return load_as(Kind::Library, out, code, n, options, values);
}

CUresult entry_cuModuleLoad(CUmodule *out, const char *path) {
  Bytes code;
  CUresult e = read_code(path, code);
  return e == CUDA_SUCCESS ? load_module(out, code.data()) : e;
}

CUresult entry_cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *options,
                                     void **values, unsigned n, CUlibraryOption *, void **,
                                     unsigned) {
  Bytes code;
  CUresult e = read_code(path, code);
  if (e != CUDA_SUCCESS) return e;
  return load_as(Kind::Library, out, code.data(), n, options, values);
}

CUresult entry_cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule m, const char *name) {
  return variable(number_of(m), name, out, bytes);
}

CUresult entry_cuLibraryGetGlobal(CUdeviceptr *out, size_t *bytes, CUlibrary l, const char *name) {
  return variable(library_here(number_of(l)), name, out, bytes);
}

CUresult entry_cuLibraryGetManaged(CUdeviceptr *out, size_t *bytes, CUlibrary l, const char *name) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!name || (!out && !bytes)) return CUDA_ERROR_INVALID_VALUE;
  std::optional<PlacedVariable> placed = placed_in(number_of(l), name);
  if (!placed) return refuse("cuLibraryGetManaged", why_with_driver(number_of(l)).c_str());
  return placed->managed ? variable(number_of(l), name, out, bytes) : CUDA_ERROR_NOT_FOUND;
}

CUresult entry_cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
  CUresult e = ask_cuModuleGetFunction(out, m, name);
  return note_name(e, e == CUDA_SUCCESS ? *out : nullptr, name);
}

CUresult entry_cuLibraryGetKernel(CUkernel *out, CUlibrary l, const char *name) {
  CUresult e = ask_cuLibraryGetKernel(out, l, name);
  return note_name(e, e == CUDA_SUCCESS ? *out : nullptr, name);
}

CUresult entry_cuLibraryGetModule(CUmodule *out, CUlibrary l) {
  return ask_cuLibraryGetModule(out, reinterpret_cast<CUlibrary>(library_here(number_of(l))));
}

CUresult entry_cuLibraryUnload(CUlibrary l) {
  for (u64 version : forget_versions(number_of(l)))
    if (CUresult e = ask_cuLibraryUnload(reinterpret_cast<CUlibrary>(version)); e != CUDA_SUCCESS)
      return e;
  return ask_cuLibraryUnload(l);
}

CUresult entry_cuKernelGetLibrary(CUlibrary *out, CUkernel k) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  u64 library = ledger().owner_of(number_of(k));
  if (!out || library == 0) return out ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUlibrary>(library);
  return CUDA_SUCCESS;
}

CUresult entry_cuKernelSetAttribute(CUfunction_attribute what, int value, CUkernel k, CUdevice d) {
  note_attribute_set(what);
  return Set<line_cuKernelSetAttribute, PFN_cuKernelSetAttribute_v12000, 1>::call(
      what, value, on_device(k, d), d);
}

CUresult entry_cuFuncSetAttribute(CUfunction f, CUfunction_attribute what, int value) {
  note_attribute_set(what);
  return Set<line_cuFuncSetAttribute, PFN_cuFuncSetAttribute_v9000, 2>::call(f, what, value);
}

CUresult entry_cuKernelSetCacheConfig(CUkernel k, CUfunc_cache config, CUdevice d) {
  return Set<line_cuKernelSetCacheConfig, PFN_cuKernelSetCacheConfig_v12000, 1>::call(
      on_device(k, d), config, d);
}

CUresult entry_cuFuncGetAttribute(int *out, CUfunction_attribute what, CUfunction f) {
  CUresult e = ask_cuFuncGetAttribute(out, what, f);
  if (e == CUDA_SUCCESS && what == CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)
    *out += static_cast<int>(placed_constant_bytes(number_of(f)));
  return e;
}

CUresult entry_cuKernelGetAttribute(int *out, CUfunction_attribute what, CUkernel k, CUdevice d) {
  CUresult e = ask_cuKernelGetAttribute(out, what, on_device(k, d), d);
  if (e == CUDA_SUCCESS && what == CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)
    *out += static_cast<int>(placed_constant_bytes(number_of(k)));
  return e;
}

CUresult entry_cuKernelGetName(const char **out, CUkernel k) { return name_of(out, number_of(k)); }
CUresult entry_cuFuncGetName(const char **out, CUfunction f) { return name_of(out, number_of(f)); }

}  // namespace ckpt::remote::cuda
