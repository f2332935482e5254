// SPDX-License-Identifier: Apache-2.0
//
// Device code. A part (a container of a fat binary, a cubin, a text of PTX) is sent once; its
// number is its hash.
#include <unordered_set>

#include "common/base/fnv.h"
#include "common/base/log.h"
#include "fatbin/image.h"
#include "remote/cuda/client/client.h"
#include "remote/cuda/client/memory.h"

namespace ckpt::remote::cuda {
namespace {

u64 send_part(ByteView bytes) {
  static std::mutex mutex;
  static auto *const kSent = new std::unordered_set<u64>;
  u64 hash = fnv1a(text(bytes), fnv1a("part") ^ bytes.size());
  std::lock_guard lock(mutex);
  if (!kSent->insert(hash).second) return hash;
  Writer w;
  link().send(number(Op::Code), current_context(), {w.put(hash).bytes(), bytes});
  return hash;
}

CUresult load(const void *code, bool library, u64 &out) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!code) return CUDA_ERROR_INVALID_VALUE;
  Result<fatbin::Image> image = fatbin::Image::in_memory(code);
  if (!image) {
    log::warn("device code cannot be read: {}", image.error().what);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  Writer w;
  w.put(u8{library}).put(image->form()).put(static_cast<u32>(image->containers().size()));
  for (const fatbin::Container &c : image->containers()) {
    if (c.bytes > kMaxBody - 4096)
      return refuse("a fat binary of more than 64 MiB", "it does not fit into one message");
    w.put(send_part(view(reinterpret_cast<const void *>(c.at), c.bytes)));
  }
  Bytes reply;
  CUresult e = ask(Op::Load, w, &reply);
  if (e != CUDA_SUCCESS) return e;
  out = Reader(reply).get<u64>();
  ledger().add(out, current_context());
  return e;
}

CUresult load_module(CUmodule *out, const void *code) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  u64 number = 0;
  CUresult e = load(code, false, number);
  if (e == CUDA_SUCCESS) *out = reinterpret_cast<CUmodule>(number);
  return e;
}

CUresult variable(u64 owner, const char *name, CUdeviceptr *out, size_t *bytes) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!name || (!out && !bytes)) return CUDA_ERROR_INVALID_VALUE;
  Writer w;
  Bytes reply;
  CUresult e = ask(Op::Global, w.put(owner).str(name), &reply);
  if (e != CUDA_SUCCESS) return e;
  Reader r(reply);
  u64 p = r.get<u64>(), n = r.get<u64>();
  memory().add_placed(p, n, current_context());
  if (out) *out = p;
  if (bytes) *bytes = n;
  return e;
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

}  // namespace

CUresult entry_cuModuleLoadData(CUmodule *out, const void *code) { return load_module(out, code); }

// Options of the compiler change speed and what its log says, which the program does not get.
CUresult entry_cuModuleLoadDataEx(CUmodule *out, const void *code, unsigned, CUjit_option *,
                                  void **) {
  return load_module(out, code);
}

CUresult entry_cuModuleLoadFatBinary(CUmodule *out, const void *code) {
  return load_module(out, code);
}

CUresult entry_cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *, void **,
                                 unsigned, CUlibraryOption *, void **, unsigned) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  u64 number = 0;
  CUresult e = load(code, true, number);
  if (e == CUDA_SUCCESS) *out = reinterpret_cast<CUlibrary>(number);
  return e;
}

CUresult entry_cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule m, const char *name) {
  return variable(number_of(m), name, out, bytes);
}

CUresult entry_cuLibraryGetGlobal(CUdeviceptr *out, size_t *bytes, CUlibrary l, const char *name) {
  return variable(number_of(l), name, out, bytes);
}

CUresult entry_cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
  CUresult e = ask_cuModuleGetFunction(out, m, name);
  return note_name(e, e == CUDA_SUCCESS ? *out : nullptr, name);
}

CUresult entry_cuLibraryGetKernel(CUkernel *out, CUlibrary l, const char *name) {
  CUresult e = ask_cuLibraryGetKernel(out, l, name);
  return note_name(e, e == CUDA_SUCCESS ? *out : nullptr, name);
}

CUresult entry_cuKernelGetName(const char **out, CUkernel k) { return name_of(out, number_of(k)); }
CUresult entry_cuFuncGetName(const char **out, CUfunction f) { return name_of(out, number_of(f)); }

}  // namespace ckpt::remote::cuda
