// SPDX-License-Identifier: Apache-2.0
#include "common/base/fields.h"
#include "common/base/log.h"
#include "remote/cuda/server/jit_call.h"
#include "remote/cuda/server/ops.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u32 kMaxParts = 1u << 16;

bool is_form(u8 form) {
  using fatbin::Form;
  for (Form f : {Form::Wrapper, Form::FatBinary, Form::Cubin, Form::Ptx})
    if (static_cast<u8>(f) == form) return true;
  return false;
}

// Without options the plain call, which every driver has.
CUresult load_module(const void *code, JitCall &jit, CUmodule *out) {
  return jit.n() == 0
             ? driver().cuModuleLoadData(out, code)
             : driver().cuModuleLoadDataEx(out, code, jit.n(), jit.options(), jit.values());
}

CUresult load_library(const void *code, JitCall &jit, CUlibrary *out) {
  return driver().cuLibraryLoadData(out, code, jit.options(), jit.values(), jit.n(), nullptr,
                                    nullptr, 0);
}

}  // namespace

CUresult op_code(Call &c) {
  u64 number = c.in.get<u64>();
  ByteView bytes = c.rest();
  return c.in.ok() && c.server.code.add(number, bytes) ? CUDA_SUCCESS : c.reject();
}

CUresult op_load(Call &c) {
  u64 number = c.in.get<u64>();
  bool library = kind_of(number) == Kind::Library;
  u8 form = c.in.get<u8>();
  u32 n = read_count(c.in, sizeof(u64), kMaxParts);
  if (!library && kind_of(number) != Kind::Module) return c.reject();
  if (!is_form(form) || !c.in.ok()) return c.reject();
  std::vector<u64> parts(n);
  for (u64 &part : parts) part = c.in.get<u64>();
  JitOptions options;
  if (!get(c.in, options) || !c.in.done()) return c.reject();
  Result<Loadable> code = c.server.code.find(static_cast<fatbin::Form>(form), parts);
  if (!code) {
    log::warn("{}", code.error().what);
    return c.server.code.is_short() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_IMAGE;
  }
  CUmodule module = nullptr;
  CUlibrary made = nullptr;
  JitCall jit(options);
  CUresult e =
      library ? load_library(code->code, jit, &made) : load_module(code->code, jit, &module);
  c.server.code.keep(std::move(*code));
  c.makes = true;
  if (e == CUDA_SUCCESS && library) c.put_number(number, made, 0);
  if (e == CUDA_SUCCESS && !library) c.put_number(number, module, c.header.context);
  put(c.out, jit.answer());
  return e;
}

CUresult op_global(Call &c) {
  u64 owner = c.in.get<u64>();
  std::string name(c.in.str());
  if (!c.in.done()) return c.reject();
  CUdeviceptr p = 0;
  size_t bytes = 0;
  CUresult e = CUDA_ERROR_INVALID_HANDLE;
  if (void *library = c.server.objects.real(Kind::Library, owner))
    e = driver().cuLibraryGetGlobal(&p, &bytes, static_cast<CUlibrary>(library), name.c_str());
  else if (void *module = c.server.objects.real(Kind::Module, owner))
    e = driver().cuModuleGetGlobal_v2(&p, &bytes, static_cast<CUmodule>(module), name.c_str());
  if (e != CUDA_SUCCESS) return e;
  c.server.memory.add(p, bytes, owner);
  c.out.put(u64{p}).put(u64{bytes});
  return e;
}

}  // namespace ckpt::remote::cuda
